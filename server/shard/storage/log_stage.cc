#include "server/shard/storage/log_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/round_up.h"

namespace muster {
namespace {

constexpr size_t kBlock = LogFile::kBlockBytes;
// Bytes that are copied and added to a checksum while they are in the processor's first cache.
constexpr size_t kPieceBytes = 16 << 10;

// Returns memory that is aligned to a block.
std::shared_ptr<std::byte> TakeMemory(BufferPool& pool, size_t bytes) {
  std::shared_ptr<float> memory = pool.Take(bytes / sizeof(float));
  // Pools align only to cache lines.
  if (reinterpret_cast<uintptr_t>(memory.get()) % kBlock != 0) {
    memory = pool.Take((bytes + kBlock) / sizeof(float));
  }
  auto* const begin = reinterpret_cast<std::byte*>(memory.get());
  const uintptr_t past = reinterpret_cast<uintptr_t>(begin) % kBlock;
  return std::shared_ptr<std::byte>(memory, begin + (kBlock - past) % kBlock);
}

}  // namespace

LogStage::LogStage(BufferPool& pool, uint64_t end, absl::Span<const std::byte> tail) : pool_(pool) {
  buffers_.push_back(NewBuffer(end - tail.size(), tail.size()));
  Append(tail);
}

LogStage::Buffer LogStage::NewBuffer(uint64_t begin, size_t bytes) {
  const size_t capacity = std::max(kBufferBytes, RoundUp(bytes, kBlock));
  return {.memory = TakeMemory(pool_, capacity), .capacity = capacity, .begin = begin, .used = 0};
}

void LogStage::Reserve(size_t bytes) {
  Buffer& last = buffers_.back();
  if (last.capacity - last.used >= bytes) return;
  // The block that is not full moves along.
  const size_t tail = last.used % kBlock;
  const std::shared_ptr<std::byte> memory = last.memory;
  const size_t whole = last.used - tail;
  // If memory runs out here, nothing has changed.
  Buffer next = NewBuffer(last.begin + whole, tail + bytes);
  if (whole == 0) {
    last = std::move(next);
  } else {
    buffers_.push_back(std::move(next));
    buffers_[buffers_.size() - 2].used = whole;
  }
  Append({memory.get() + whole, tail});
}

void LogStage::Append(absl::Span<const std::byte> bytes) {
  Buffer& last = buffers_.back();
  if (!bytes.empty()) std::memcpy(last.memory.get() + last.used, bytes.data(), bytes.size());
  last.used += bytes.size();
}

void LogStage::Append(absl::Span<const std::byte> bytes, FingerprintStream& checksum) {
  Buffer& last = buffers_.back();
  std::byte* const to = last.memory.get() + last.used;
  for (size_t done = 0; done < bytes.size(); done += kPieceBytes) {
    const size_t piece = std::min(kPieceBytes, bytes.size() - done);
    std::memcpy(to + done, bytes.data() + done, piece);
    checksum.Add(to + done, piece);
  }
  last.used += bytes.size();
}

void LogStage::Overwrite(uint64_t offset, absl::Span<const std::byte> bytes) {
  const Buffer& last = buffers_.back();
  std::memcpy(last.memory.get() + (offset - last.begin), bytes.data(), bytes.size());
}

Payload LogStage::SharedBytes(uint64_t offset, size_t bytes) const {
  if (bytes == 0) return Payload();
  const Buffer& last = buffers_.back();
  return Payload({absl::MakeConstSpan(last.memory.get() + (offset - last.begin), bytes)},
                 last.memory);
}

std::vector<std::byte> LogStage::Tail() const {
  const Buffer& last = buffers_.back();
  const std::byte* const end = last.memory.get() + last.used;
  return std::vector<std::byte>(end - last.used % kBlock, end);
}

absl::Status LogStage::WriteTo(LogFile& file) {
  std::vector<absl::Span<const std::byte>> blocks;
  for (const Buffer& buffer : buffers_) {
    const size_t bytes = RoundUp(buffer.used, kBlock);
    std::memset(buffer.memory.get() + buffer.used, 0, bytes - buffer.used);
    blocks.push_back({buffer.memory.get(), bytes});
  }
  return file.WriteBlocks(buffers_.front().begin, blocks);
}

}  // namespace muster
