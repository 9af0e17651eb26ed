#include "worker/device/memory/await_device.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/device/device.h"
#include "common/device/device_fault.h"
#include "common/kernels/device/attention/device_attention.h"
#include "common/kernels/device/device_head_norm.h"
#include "common/kernels/device/device_norm.h"
#include "common/plan/device/device_memory_layout.h"
#include "worker/device/memory/device_memory_plan.h"
#include "worker/device/memory/device_parameters.h"

namespace muster {
namespace {

constexpr double kMiB = 1 << 20;

// Of a grid's z, which counts sequences.
constexpr int64_t kMostSequences = 65535;

std::string Table(const DeviceMemoryBytes& bytes) {
  const auto mib = [](size_t each) {
    return absl::StrCat(static_cast<int64_t>(std::ceil(each / kMiB)), " MiB");
  };
  const std::string gathered =
      bytes.gathered_weights == 0 ? ""
                                  : absl::StrCat(", gathered weights ", mib(bytes.gathered_weights),
                                                 ", sums of gradients ", mib(bytes.gradient_sums));
  return absl::StrCat(
      "weights ", mib(bytes.weights), gathered, ", 16-bit weights ", mib(bytes.rounded_weights),
      ", gradients ", mib(bytes.gradients), ", optimizer state ", mib(bytes.optimizer_state),
      ", activations ", mib(bytes.activations), ", logits ", mib(bytes.logits), ", scratch ",
      mib(bytes.scratch),
      bytes.messages == 0 ? ""
                          : absl::StrCat(", messages with other stages ", mib(bytes.messages)));
}

AttentionShape HeadsOf(const TransformerShape& shape) {
  AttentionShape attention;
  attention.B = 1;
  attention.T = 1;
  attention.H = shape.heads;
  attention.KV = shape.kv_heads;
  attention.D = shape.head_dim();
  return attention;
}

absl::Status CheckOptions(const DeviceOptions& options) {
  const TransformerShape& shape = options.shape;
  const DeviceComputeOptions& compute = options.compute;
  if (compute.type != DType::kF32 && compute.type != DType::kBf16 && compute.type != DType::kF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("a device computes in f32, bf16 or f16, not ", Name(compute.type)));
  }
  if (compute.sequences < 1 || compute.length < 1 || compute.length > shape.context) {
    return absl::InvalidArgumentError(absl::StrCat(
        "micro-batches of ", compute.sequences, " sequences of ", compute.length,
        " tokens: both must be at least 1, and tokens at most the context of ", shape.context));
  }
  if (compute.sequences > kMostSequences) {
    return absl::InvalidArgumentError(absl::StrCat("micro-batches of ", compute.sequences,
                                                   " sequences: a device takes at most ",
                                                   kMostSequences, "; use smaller micro-batches"));
  }
  if (shape.layers < 1 || shape.heads < 1 || shape.kv_heads < 1 || shape.head_dim() < 1 ||
      shape.heads % shape.kv_heads != 0 || shape.vocabulary < 1 || shape.feed_forward < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("no transformer has ", shape.layers, " layers, width ", shape.width, ", ",
                     shape.heads, " heads on ", shape.kv_heads, ", feed-forward width ",
                     shape.feed_forward, " and a vocabulary of ", shape.vocabulary));
  }
  if (!DeviceAttentionTakes(HeadsOf(shape))) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention on a device takes heads of at most 256 elements; these have ",
                     shape.head_dim()));
  }
  return absl::OkStatus();
}

// Whether a block of each kernel can have the shared memory that it takes.
absl::Status CheckSharedMemory(const DeviceOptions& options, const DeviceProperties& device) {
  const TransformerShape& shape = options.shape;
  const size_t offered = device.shared_memory_per_block_optin;
  const size_t norm = DeviceNormSharedBytes(shape.width);
  if (norm > offered) {
    return absl::InvalidArgumentError(absl::StrCat("a norm of width ", shape.width, " needs ", norm,
                                                   " bytes of shared memory a block; ", device.name,
                                                   " has ", offered, "; use a narrower model"));
  }
  const int64_t normed = shape.HeadsOfNorm(shape.heads) * shape.head_dim();
  if (const size_t bytes = normed > 0 ? DeviceHeadNormSharedBytes(normed) : 0; bytes > offered) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a norm of queries of ", normed, " columns needs ", bytes,
        " bytes of shared memory a block; ", device.name, " has ", offered, "; use fewer heads"));
  }
  const AttentionShape heads = HeadsOf(shape);
  const size_t attention = DeviceAttentionSharedBytes(heads, options.compute.type);
  if (attention <= offered) return absl::OkStatus();
  const bool in_16_bits = DeviceAttentionSharedBytes(heads, DType::kBf16) <= offered;
  return absl::InvalidArgumentError(
      absl::StrCat("attention in ", Name(options.compute.type), " with heads of ", shape.head_dim(),
                   " elements needs ", attention, " bytes of shared memory a block; ", device.name,
                   " has ", offered, "; use narrower heads",
                   in_16_bits ? ", or compute.type BF16 or F16" : "", ", or another kind of GPU"));
}

}  // namespace

absl::Status AwaitDevice(const DeviceOptions& options, int communicators) {
  MUSTER_RETURN_IF_ERROR(CheckOptions(options));
  const absl::StatusOr<DeviceProperties> device = OpenDevice(options.device);
  if (absl::IsUnavailable(device.status())) return DeviceFaultError(device.status().message());
  MUSTER_RETURN_IF_ERROR(device.status());
  MUSTER_RETURN_IF_ERROR(CheckSharedMemory(options, *device));
  MUSTER_ASSIGN_OR_RETURN(const DeviceParameters parameters,
                          DeviceParameters::Create(options.shape, options.shares));
  const DeviceMemoryBytes bytes =
      PlanDeviceMemory(DeviceExtentsOf(options.shape, parameters, options.compute));
  return AwaitDeviceMemory({.needed = bytes.total + kDeviceHeadroomBytes,
                            .total = device->memory_bytes,
                            .own = kCudaContextBytes + communicators * kNcclBytes,
                            .parts = Table(bytes)},
                           FreeDeviceMemory, options.wait);
}

}  // namespace muster
