#include "common/kernels/transformer/limit_instructions_for_testing.h"

#include "absl/strings/str_cat.h"
#include "common/base/machine/multiplies_bfloat16.h"
#include "common/base/machine/vector_level.h"
#include "common/kernels/transformer/vector_kernels.h"
#include "dnnl.h"

namespace muster {
namespace {

dnnl_cpu_isa_t OneDnnLimit(InstructionLimit limit) {
  switch (limit) {
    case InstructionLimit::kAvx2:
      return dnnl_cpu_isa_avx2;
    case InstructionLimit::kAvx512:
      return dnnl_cpu_isa_avx512_core;
    case InstructionLimit::kAvx512Bf16:
      return dnnl_cpu_isa_avx512_core_bf16;
  }
  return dnnl_cpu_isa_all;
}

}  // namespace

absl::Status LimitInstructionsForTesting(InstructionLimit limit) {
  const bool avx512 = limit >= InstructionLimit::kAvx512;
  const VectorKernels* kernels = avx512 ? Avx512VectorKernels() : Avx2VectorKernels();
  const VectorLevel wanted = avx512 ? VectorLevel::kAvx512 : VectorLevel::kAvx2;
  if (ProcessorVectorLevel() < wanted || kernels == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        "this processor has no ", avx512 ? "AVX-512 F, BW, DQ and VL" : "AVX2, FMA and F16C"));
  }
  if (limit == InstructionLimit::kAvx512Bf16 && !MultipliesBFloat16()) {
    return absl::UnimplementedError("this processor has no fast products of bf16");
  }
  const dnnl_cpu_isa_t isa = OneDnnLimit(limit);
  const dnnl_status_t status = dnnl_set_max_cpu_isa(isa);
  if (status != dnnl_success || dnnl_get_effective_cpu_isa() != isa) {
    return absl::FailedPreconditionError(absl::StrCat(
        "oneDNN takes no limit (status ", static_cast<int>(status), ", effective instructions ",
        static_cast<int>(dnnl_get_effective_cpu_isa()), "), wanted ", static_cast<int>(isa)));
  }
  SetVectorKernelsForTesting(*kernels);
  if (limit < InstructionLimit::kAvx512Bf16) HideBFloat16ProductsForTesting();
  return absl::OkStatus();
}

}  // namespace muster
