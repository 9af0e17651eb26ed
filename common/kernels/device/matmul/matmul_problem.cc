#include "common/kernels/device/matmul/matmul_problem.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::string Describe(const MatmulProblem& p) {
  std::string text = absl::StrCat(
      Name(p.in), " [", p.m, ", ", p.k, "]", p.transpose_a == Transpose::kYes ? " transposed" : "",
      " x [", p.k, ", ", p.n, "]", p.transpose_b == Transpose::kYes ? " transposed" : "");
  if (p.epilogue == MatmulEpilogue::kBias || p.has_bias) absl::StrAppend(&text, " + bias");
  if (p.epilogue == MatmulEpilogue::kGelu) absl::StrAppend(&text, ", gelu");
  if (p.epilogue == MatmulEpilogue::kGeluGradient) absl::StrAppend(&text, ", gelu's gradient");
  absl::StrAppend(&text, p.accumulation == Accumulation::kAdd ? ", added to " : " to ",
                  Name(p.out));
  return text;
}

MatmulProblem Dense(MatmulProblem p) {
  if (p.a_stride == 0) p.a_stride = p.transpose_a == Transpose::kYes ? p.m : p.k;
  if (p.b_stride == 0) p.b_stride = p.transpose_b == Transpose::kYes ? p.k : p.n;
  if (p.c_stride == 0) p.c_stride = p.n;
  if (p.epilogue == MatmulEpilogue::kBias) p.has_bias = true;
  return p;
}

absl::Status CheckMatmul(const MatmulProblem& problem, const MatmulOperands& operands) {
  const MatmulProblem p = Dense(problem);
  const auto refuse = [&p](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("matrix product ", Describe(p), ": ", what));
  };
  if (p.m < 1 || p.n < 1 || p.k < 1) return refuse("every extent must be at least 1");
  if (p.in != DType::kF32 && p.in != DType::kBf16 && p.in != DType::kF16) {
    return refuse("operands must be f32, bf16 or f16");
  }
  if (p.out != DType::kF32 && p.out != p.in) {
    return refuse("the result must be f32 or of the operands' type");
  }
  if (p.a_stride < (p.transpose_a == Transpose::kYes ? p.m : p.k) ||
      p.b_stride < (p.transpose_b == Transpose::kYes ? p.k : p.n) || p.c_stride < p.n) {
    return refuse(absl::StrCat("strides ", p.a_stride, ", ", p.b_stride, ", ", p.c_stride,
                               " are shorter than the rows"));
  }
  if (p.accumulation == Accumulation::kAdd && p.epilogue != MatmulEpilogue::kNone) {
    return refuse("only a product without an epilogue can be added to what is there");
  }
  const bool takes_bias =
      p.epilogue == MatmulEpilogue::kBias || p.epilogue == MatmulEpilogue::kGelu;
  if (p.has_bias && !takes_bias) return refuse("this epilogue takes no bias");
  const bool takes_aux =
      p.epilogue == MatmulEpilogue::kGelu || p.epilogue == MatmulEpilogue::kGeluGradient;
  if (operands.a == nullptr || operands.b == nullptr || operands.c == nullptr ||
      p.has_bias != (operands.bias != nullptr) || takes_aux != (operands.aux != nullptr)) {
    return refuse("an operand is missing, or is there and has no use");
  }
  return absl::OkStatus();
}

}  // namespace muster
