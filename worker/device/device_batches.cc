#include "worker/device/device_batches.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/kernels/device/device_embedding.h"

namespace muster {
namespace {

constexpr int kPlaces = 4;

absl::Status CheckVocabulary(const std::vector<int32_t>& values, const char* what, int32_t least,
                             int64_t vocabulary) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= least && values[i] < vocabulary) continue;
    return absl::InvalidArgumentError(absl::StrCat(what, " ", i, " of a batch is ", values[i],
                                                   "; it must be from ", least, " to ",
                                                   vocabulary - 1, "."));
  }
  return absl::OkStatus();
}

// How far an array lies behind the first.
size_t OffsetOf(const void* array, const DeviceBatchArrays& arrays) {
  return static_cast<const std::byte*>(array) - reinterpret_cast<const std::byte*>(arrays.tokens);
}

}  // namespace

DeviceBatches::DeviceBatches(const TransformerShape& shape, const TokenRows& most,
                             const DeviceBatchArrays& arrays)
    : shape_(shape), most_(most), arrays_(arrays), token_counts_(shape.vocabulary) {}

absl::StatusOr<std::unique_ptr<DeviceBatches>> DeviceBatches::Create(
    const TransformerShape& shape, const TokenRows& most, const DeviceBatchArrays& arrays) {
  std::unique_ptr<DeviceBatches> batches(new DeviceBatches(shape, most, arrays));
  const size_t bytes = OffsetOf(arrays.clock + 1, arrays);
  for (int i = 0; i < kPlaces; ++i) {
    Place place;
    MUSTER_ASSIGN_OR_RETURN(place.memory, DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, bytes));
    std::memset(place.memory.data(), 0, place.memory.bytes());
    MUSTER_ASSIGN_OR_RETURN(place.copied, DeviceEvent::Create());
    batches->places_.push_back(std::move(place));
  }
  return batches;
}

absl::StatusOr<TokenRows> DeviceBatches::Check(const Batch& batch) const {
  const int64_t tokens = batch.tokens.size();
  TokenRows rows;
  rows.sequences = batch.examples;
  rows.length = batch.examples == 0 ? 0 : tokens / batch.examples;
  if (rows.count() != tokens || rows.sequences > most_.sequences || rows.length > most_.length ||
      (rows.sequences > 0 && rows.length == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "A batch of ", batch.examples, " sequences has ", tokens, " tokens; room is for at most ",
        most_.sequences, " sequences of one length of 1 to ", most_.length, " tokens."));
  }
  if (batch.labels.size() != batch.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("A batch of ", tokens, " tokens has ",
                                                   batch.labels.size(),
                                                   " labels; it must have one each."));
  }
  MUSTER_RETURN_IF_ERROR(CheckVocabulary(batch.tokens, "Token", 0, shape_.vocabulary));
  MUSTER_RETURN_IF_ERROR(CheckVocabulary(batch.labels, "Label", -1, shape_.vocabulary));
  return rows;
}

absl::Status DeviceBatches::Copy(DeviceStream& stream, const Batch& batch,
                                 const DropoutClock& clock) {
  Place& place = places_[next_];
  next_ = (next_ + 1) % places_.size();
  MUSTER_RETURN_IF_ERROR(place.copied->Synchronize());
  std::byte* memory = place.memory.data();
  const size_t bytes = batch.tokens.size() * sizeof(int32_t);
  std::memcpy(memory, batch.tokens.data(), bytes);
  std::memcpy(memory + OffsetOf(arrays_.labels, arrays_), batch.labels.data(), bytes);
  FillTokenOrder(batch.tokens, absl::MakeSpan(token_counts_),
                 {reinterpret_cast<int32_t*>(memory + OffsetOf(arrays_.token_order, arrays_)),
                  static_cast<size_t>(TokenOrderSize(batch.tokens.size()))});
  std::memcpy(memory + OffsetOf(arrays_.clock, arrays_), &clock, sizeof(clock));
  stream.CopyToDevice(arrays_.tokens, memory, place.memory.bytes());
  stream.Record(*place.copied);
  return absl::OkStatus();
}

}  // namespace muster
