#include "worker/strategy/content_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "common/base/machine/stream_copy.h"
#include "common/base/status_macros.h"
#include "common/kernels/parallel_for.h"
#include "common/tables/sparse_table.h"

namespace muster {
namespace {

size_t FloatsOf(const PartitionContent::Block& block) {
  return block.weights.size() + block.state.size();
}

size_t WordsOf(uint32_t width) {
  const size_t bytes = sizeof(SparseTable::Row) + width * sizeof(float);
  return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

// Copies values to `to`, and returns them there.
absl::Span<const float> CopyTo(float* to, absl::Span<const float> from) {
  StreamCopy(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from.data()),
             from.size() * sizeof(float));
  return {to, from.size()};
}

}  // namespace

absl::StatusOr<absl::Span<float>> ContentCopy::Reserve(size_t floats) {
  if (!offload_folder_.empty()) {
    if (offloaded_values_ == nullptr || offloaded_values_->values().size() != floats) {
      offloaded_values_ = nullptr;
      MUSTER_ASSIGN_OR_RETURN(offloaded_values_, OffloadedFloats::Create(offload_folder_, floats));
    }
    return offloaded_values_->values();
  }
  if (values_ == nullptr || values_->values().size() != floats) {
    values_ = nullptr;
    values_ = std::make_unique<Arena>(floats);
  }
  return values_->values();
}

absl::Status ContentCopy::Take(std::vector<PartitionContent> contents) {
  contents_ = std::move(contents);
  size_t floats = 0;
  for (const PartitionContent& content : contents_) {
    for (const PartitionContent::Block& block : content.blocks) floats += FloatsOf(block);
  }
  MUSTER_ASSIGN_OR_RETURN(const absl::Span<float> values, Reserve(floats));
  CopyBlocks(values);
  CopyRows();
  return absl::OkStatus();
}

void ContentCopy::CopyBlocks(absl::Span<float> values) {
  if (!contents_.empty()) tensors_.assign(contents_[0].tensors.begin(), contents_[0].tensors.end());
  struct Place {
    PartitionContent* content;
    size_t block;
    size_t begin;
  };
  std::vector<Place> places;
  size_t begin = 0;
  for (PartitionContent& content : contents_) {
    content.tensors = tensors_;
    for (size_t i = 0; i < content.blocks.size(); ++i) {
      places.push_back({&content, i, begin});
      begin += FloatsOf(content.blocks[i]);
    }
  }
  layouts_.clear();
  layouts_.reserve(places.size());
  for (const Place& place : places) {
    const DenseLayout::Block*& layout = place.content->blocks[place.block].layout;
    layout = &layouts_.emplace_back(*layout);
  }
  const auto copies = static_cast<int64_t>(places.size());
  // A file is gone through in order.
  const int64_t at_once = offloaded_values_ == nullptr ? 1 : std::max<int64_t>(1, copies);
  ParallelFor(copies, at_once, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Place& place = places[i];
      PartitionContent::Block& block = place.content->blocks[place.block];
      float* const to = values.data() + place.begin;
      block.weights = CopyTo(to, block.weights);
      block.state = CopyTo(to + block.weights.size(), block.state);
      place.content->written(place.block);
      Unmap(block);
    }
    StreamFence();
  });
  for (PartitionContent& content : contents_) {
    content.written = [this, &content](size_t block) { Unmap(content.blocks[block]); };
  }
}

void ContentCopy::Unmap(const PartitionContent::Block& block) const {
  if (offloaded_values_ == nullptr) return;
  const size_t begin = block.weights.data() - offloaded_values_->values().data();
  offloaded_values_->Leave({begin, begin + FloatsOf(block)});
}

void ContentCopy::CopyRows() {
  size_t words = 0;
  for (const PartitionContent& content : contents_) {
    for (const PartitionContent::Rows& table : content.sparse) {
      words += table.rows.size() * WordsOf(table.width);
    }
  }
  rows_.resize(words);
  uint64_t* to = rows_.data();
  for (PartitionContent& content : contents_) {
    for (PartitionContent::Rows& table : content.sparse) {
      const size_t bytes = sizeof(SparseTable::Row) + table.width * sizeof(float);
      for (const SparseTable::Row*& row : table.rows) {
        std::memcpy(to, row, bytes);
        row = reinterpret_cast<const SparseTable::Row*>(to);
        to += WordsOf(table.width);
      }
    }
  }
}

}  // namespace muster
