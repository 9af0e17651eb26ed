#include "common/plan/memory/matrix_memory.h"

#include <algorithm>
#include <map>

#include "common/kernels/orthogonalise_scratch.h"
#include "common/partition/matrices.h"
#include "common/partition/tensor_spec.h"
#include "common/plan/size/model_size.h"

namespace muster {

MatrixMemory PlanMatrices(const ModelSize& model) {
  MatrixMemory matrices;
  std::map<uint32_t, uint64_t> units;
  for (const TensorSpec& tensor : model.tensors) {
    for (const MatrixShare& matrix : MatrixShares(tensor)) {
      matrices.largest =
          std::max(matrices.largest, static_cast<uint64_t>(matrix.rows * matrix.columns));
      matrices.scratch =
          std::max(matrices.scratch,
                   static_cast<uint64_t>(OrthogonaliseScratch(matrix.rows, matrix.columns)));
      units[tensor.unit] += matrix.end - matrix.begin;
    }
  }
  for (const auto& [unit, elements] : units) {
    matrices.of_unit = std::max(matrices.of_unit, elements);
  }
  return matrices;
}

}  // namespace muster
