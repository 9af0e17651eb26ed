#include "worker/nn/transformer/arrays/tensor_rows.h"

#include "worker/nn/tensor_group.h"

namespace muster {

const void* AllRows(const ComputeContext& context, DType type, int64_t width, const void* own,
                    void* block) {
  if (!context.divides_rows()) return own;
  context.group->Gather(type, context.rows_of_rank() * width, own, block);
  return block;
}

void* SummandRows(const ComputeContext& context, void* own, void* block) {
  return context.divides_rows() ? block : own;
}

void SumRows(const ComputeContext& context, DType type, int64_t width, void* own, void* block) {
  if (context.group == nullptr) return;
  if (context.divides_rows()) {
    context.group->ScatterSums(type, context.rows_of_rank() * width, block, own);
  } else {
    context.group->Sum(type, context.rows.count() * width, own);
  }
}

}  // namespace muster
