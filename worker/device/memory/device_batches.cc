#include "worker/device/memory/device_batches.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/device/device_embedding.h"

namespace muster {
namespace {

constexpr int kPlaces = 4;

// How far an array lies behind the first.
size_t OffsetOf(const void* array, const DeviceBatchArrays& arrays) {
  return static_cast<const std::byte*>(array) - reinterpret_cast<const std::byte*>(arrays.tokens);
}

}  // namespace

DeviceBatches::DeviceBatches(const TransformerShape& shape, const TokenRows& most,
                             const DeviceBatchArrays& arrays)
    : most_(most),
      arrays_(arrays),
      learned_positions_(shape.positions == TransformerShape::Positions::kLearned),
      token_counts_(std::max(shape.vocabulary, shape.context)) {}

absl::StatusOr<std::unique_ptr<DeviceBatches>> DeviceBatches::Create(
    const TransformerShape& shape, const TokenRows& most, const DeviceBatchArrays& arrays) {
  std::unique_ptr<DeviceBatches> batches(new DeviceBatches(shape, most, arrays));
  const size_t bytes = OffsetOf(arrays.record + 1, arrays);
  for (int i = 0; i < kPlaces; ++i) {
    Place place;
    MUSTER_ASSIGN_OR_RETURN(place.memory, DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, bytes));
    std::memset(place.memory.data(), 0, place.memory.bytes());
    MUSTER_ASSIGN_OR_RETURN(place.copied, DeviceEvent::Create());
    batches->places_.push_back(std::move(place));
  }
  return batches;
}

std::byte* DeviceBatches::At(const Place& place, const void* array) const {
  return place.memory.data() + OffsetOf(array, arrays_);
}

absl::StatusOr<TokenRows> DeviceBatches::Take(const TokenArrays& batch) {
  TokenRows rows = batch.rows;
  const int32_t* const positions = std::exchange(rows.token_positions, nullptr);
  const int32_t* const whole = std::exchange(rows.whole_positions, nullptr);
  if (rows.sequences > most_.sequences || rows.length > most_.length) {
    return absl::InvalidArgumentError(absl::StrCat("A batch has ", rows.sequences, " sequences of ",
                                                   rows.length, " tokens; room is for at most ",
                                                   most_.sequences, " sequences of at most ",
                                                   most_.length, "."));
  }
  if (rows.sequences == 0) return rows;
  taken_ = (taken_ + 1) % places_.size();
  const Place& place = places_[taken_];
  MUSTER_RETURN_IF_ERROR(place.copied->Synchronize());
  const size_t bytes = batch.tokens.size() * sizeof(int32_t);
  std::memcpy(At(place, arrays_.tokens), batch.tokens.data(), bytes);
  std::memcpy(At(place, arrays_.labels), batch.labels.data(), bytes);
  const auto fill_order = [&](absl::Span<const int32_t> values, int32_t* order) {
    FillTokenOrder(values, absl::MakeSpan(token_counts_),
                   {reinterpret_cast<int32_t*>(At(place, order)),
                    static_cast<size_t>(TokenOrderSize(values.size()))});
  };
  fill_order(batch.tokens, arrays_.token_order);
  if (whole != nullptr && arrays_.whole_positions != nullptr) {
    std::memcpy(At(place, arrays_.whole_positions), whole,
                rows.sequences * rows.whole_length() * sizeof(int32_t));
  }
  if (positions == nullptr) return rows;
  std::memcpy(At(place, arrays_.positions), positions, bytes);
  if (learned_positions_) fill_order({positions, batch.tokens.size()}, arrays_.position_order);
  return rows;
}

void DeviceBatches::Copy(DeviceStream& stream, const DeviceBatchRecord& record,
                         const DeviceBatchArrays& to) {
  const Place& place = places_[taken_];
  std::memcpy(At(place, arrays_.record), &record, sizeof(record));
  stream.CopyToDevice(to.tokens, place.memory.data(), place.memory.bytes());
  stream.Record(*place.copied);
}

}  // namespace muster
