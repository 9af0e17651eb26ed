#include "common/base/payload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/machine/prefetch.h"

namespace muster {
namespace {

// How far ahead pieces, which may lie anywhere, are begun to be loaded, and how much of each: as
// much as the processor needs to see how it goes on.
constexpr size_t kPiecesAhead = 6;
constexpr size_t kBegunBytes = 512;
constexpr size_t kLineBytes = 64;

// Unaligned on purpose: pieces start anywhere. Compilers turn the fixed-size memcpy into vector
// loads.
void AddUnaligned(const std::byte* source, float* destination, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, source + i * sizeof(float), sizeof(float));
    destination[i] += value;
  }
}

}  // namespace

Payload::Payload(std::vector<Piece> pieces, std::shared_ptr<const void> owner)
    : pieces_(std::move(pieces)), owner_(std::move(owner)) {
  for (const Piece& piece : pieces_) size_ += piece.size();
}

Payload Payload::Copy(Piece bytes) {
  return Of(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

Payload Payload::Slice(size_t offset, size_t bytes) const {
  std::vector<Piece> pieces;
  for (const Piece& piece : pieces_) {
    if (bytes == 0) break;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const size_t take = std::min(bytes, piece.size() - offset);
    pieces.push_back(piece.subspan(offset, take));
    bytes -= take;
    offset = 0;
  }
  return Payload(std::move(pieces), owner_);
}

void Payload::Read(Position& position, size_t bytes, void* destination) const {
  auto* at = static_cast<std::byte*>(destination);
  while (bytes > 0) {
    if (const size_t ahead = position.piece + kPiecesAhead; ahead < pieces_.size()) {
      const Piece next = pieces_[ahead];
      const size_t begun = std::min(next.size(), kBegunBytes);
      for (size_t i = 0; i < begun; i += kLineBytes) Prefetch(next.data() + i);
    }
    const Piece rest = pieces_[position.piece].subspan(position.in_piece);
    const size_t length = std::min(bytes, rest.size());
    if (length > 0) std::memcpy(at, rest.data(), length);
    at += length;
    bytes -= length;
    position.in_piece += length;
    if (length == rest.size()) position = {position.piece + 1, 0};
  }
}

void Payload::CopyTo(void* destination) const {
  Position begin;
  Read(begin, size_, destination);
}

void Payload::AddTo(absl::Span<float> destination) const {
  float* at = destination.data();
  std::byte carry[sizeof(float)];
  size_t carried = 0;
  for (Piece piece : pieces_) {
    if (carried > 0) {
      const size_t take = std::min(sizeof(float) - carried, piece.size());
      std::memcpy(carry + carried, piece.data(), take);
      carried += take;
      piece.remove_prefix(take);
      if (carried < sizeof(float)) continue;
      AddUnaligned(carry, at++, 1);
      carried = 0;
    }
    const size_t whole = piece.size() / sizeof(float);
    AddUnaligned(piece.data(), at, whole);
    at += whole;
    carried = piece.size() - whole * sizeof(float);
    if (carried > 0) std::memcpy(carry, piece.data() + whole * sizeof(float), carried);
  }
}

}  // namespace muster
