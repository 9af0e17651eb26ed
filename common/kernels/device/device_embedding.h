#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_EMBEDDING_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_EMBEDDING_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/kernels/device/device_sizes.h"
#include "common/kernels/transformer/op_arrays.h"
#include "common/kernels/transformer/token_embedding.h"

namespace muster {

class DeviceStream;

// common/kernels/transformer/token_embedding.h on a device, with tables of f32. `positions` may be
// null. `tokens` is in device memory; one out of range is the caller's error.
void DeviceTokenEmbedding(DeviceStream& stream, const TokenEmbeddingShape& shape,
                          const int32_t* tokens, const float* table, const float* positions,
                          float* out);

// The rows of a batch by token, which makes the table's gradient a sum per token without atomics:
// as [TokenOrderSize(rows)] integers: the rows, those of a token together and in order; for each
// token that occurs where its rows begin among these, and one past the last; these tokens; how many
// there are. Made on the host beside the batch, and copied with it. `counts` has a place for each
// token of the vocabulary, and what is in it before and after is of no use; time grows as rows and
// vocabulary do.
// REQUIRES: order.size() == TokenOrderSize(tokens.size()); tokens from 0 to counts.size() - 1.
void FillTokenOrder(absl::Span<const int32_t> tokens, absl::Span<int32_t> counts,
                    absl::Span<int32_t> order);

// The table's gradient of each token += dout's rows of the token, that of each position (null: not
// made) += dout's rows at the position, in f32 and one order. Orders are FillTokenOrder's, in
// device memory.
void DeviceTokenEmbeddingBackward(DeviceStream& stream, const TokenEmbeddingShape& shape,
                                  const EmbeddingTokens& tokens, const float* dout,
                                  const EmbeddingGradients& gradients);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_EMBEDDING_H_
