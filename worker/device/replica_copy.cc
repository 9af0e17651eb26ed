#include "worker/device/replica_copy.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/partition/dense_layout.h"

namespace muster {
namespace {

// Of one piece of a tensor: where it begins in the tensor, and its values in the replica.
struct PieceValues {
  uint64_t begin = 0;
  absl::Span<float> weights;
  absl::Span<float> m;
  absl::Span<float> v;
};

// A block's state is all of m, then all of v.
std::vector<std::vector<PieceValues>> PiecesByTensor(ShardState& replica) {
  const ShardState::State state = replica.state();
  std::vector<std::vector<PieceValues>> tensors(replica.tables().tensors.size());
  for (const DenseLayout::Block& block : replica.layout().blocks()) {
    const uint64_t elements = block.elements();
    const absl::Span<float> weights = state.weights.subspan(block.begin, elements);
    const absl::Span<float> m = state.optimizer_state.subspan(2 * block.begin, elements);
    const absl::Span<float> v = state.optimizer_state.subspan(2 * block.begin + elements, elements);
    uint64_t at = 0;
    for (const DenseLayout::Piece& piece : block.pieces) {
      const uint64_t count = piece.end - piece.begin;
      tensors[piece.tensor].push_back(
          {piece.begin, weights.subspan(at, count), m.subspan(at, count), v.subspan(at, count)});
      at += count;
    }
  }
  return tensors;
}

struct Space {
  DeviceSpace device;
  absl::Span<float> PieceValues::*values;
};
constexpr Space kSpaces[] = {{DeviceSpace::kWeights, &PieceValues::weights},
                             {DeviceSpace::kFirstMoments, &PieceValues::m},
                             {DeviceSpace::kSecondMoments, &PieceValues::v}};

// Calls `copy` for each tensor and space with memory for its values.
absl::Status ForEachSpace(
    ShardState& replica,
    absl::FunctionRef<absl::Status(int tensor, const Space& space,
                                   absl::Span<const PieceValues> pieces, absl::Span<float> values)>
        copy) {
  const auto tensors = PiecesByTensor(replica);
  std::vector<float> values;
  for (size_t t = 0; t < tensors.size(); ++t) {
    // A tied tensor has no pieces of its own.
    if (tensors[t].empty()) continue;
    values.resize(replica.tables().tensors[t].elements());
    for (const Space& space : kSpaces) {
      MUSTER_RETURN_IF_ERROR(copy(static_cast<int>(t), space, tensors[t], absl::MakeSpan(values)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyToDevice(ShardState& replica, DeviceStream& stream, DeviceSpaces& spaces) {
  return ForEachSpace(replica, [&](int tensor, const Space& space,
                                   absl::Span<const PieceValues> pieces, absl::Span<float> values) {
    for (const PieceValues& piece : pieces) {
      const absl::Span<float> from = piece.*space.values;
      std::copy(from.begin(), from.end(), values.begin() + piece.begin);
    }
    return spaces.Write(stream, space.device, tensor, values);
  });
}

absl::Status CopyFromDevice(DeviceStream& stream, DeviceSpaces& spaces, ShardState& replica) {
  return ForEachSpace(replica, [&](int tensor, const Space& space,
                                   absl::Span<const PieceValues> pieces, absl::Span<float> values) {
    MUSTER_RETURN_IF_ERROR(spaces.Read(stream, space.device, tensor, values));
    for (const PieceValues& piece : pieces) {
      const absl::Span<float> to = piece.*space.values;
      std::copy_n(values.begin() + piece.begin, to.size(), to.begin());
    }
    return absl::OkStatus();
  });
}

}  // namespace muster
