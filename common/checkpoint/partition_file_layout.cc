#include "common/checkpoint/partition_file_layout.h"

#include <algorithm>
#include <limits>

#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

// Version 1 has all rows of a piece in one group and does not say so.
std::vector<uint64_t> GroupRows(const v1::PartitionFileHeader& header,
                                const v1::SparsePiece& piece) {
  if (header.format_version() == 1) return {piece.rows()};
  return {piece.group_rows().begin(), piece.group_rows().end()};
}

uint64_t RowBytes(const v1::SparsePiece& piece) {
  return sizeof(uint64_t) + 2 * sizeof(uint32_t) + sizeof(float) * uint64_t{piece.width()};
}

int Arrays(const v1::PartitionFileHeader& header, const v1::DensePiece& piece) {
  return piece.no_slots() ? 1 : 1 + header.optimizer_slots_size();
}

}  // namespace

PartitionFileLayout::PartitionFileLayout(const v1::PartitionFileHeader& header) {
  uint64_t offset = 0;
  for (const v1::DensePiece& piece : header.dense()) {
    const uint64_t bytes = (piece.end() - piece.begin()) * sizeof(float);
    dense_.push_back({.offset = offset, .array_bytes = bytes});
    offset += bytes * Arrays(header, piece);
  }
  for (const v1::SparsePiece& piece : header.sparse()) {
    Sparse& sparse = sparse_.emplace_back();
    for (const uint64_t rows : GroupRows(header, piece)) {
      sparse.groups.push_back({.rows = rows, .offset = offset});
      offset += rows * RowBytes(piece);
    }
    sparse.dropped = {.keys = piece.dropped(), .offset = offset};
    offset += piece.dropped() * sizeof(uint64_t);
  }
}

uint64_t PartitionFileLayout::DataBytes(const v1::PartitionFileHeader& header) {
  unsigned __int128 bytes = 0;
  for (const v1::DensePiece& piece : header.dense()) {
    bytes += static_cast<unsigned __int128>(piece.end() - piece.begin()) * sizeof(float) *
             Arrays(header, piece);
  }
  for (const v1::SparsePiece& piece : header.sparse()) {
    for (const uint64_t rows : GroupRows(header, piece)) {
      bytes += static_cast<unsigned __int128>(rows) * RowBytes(piece);
    }
    bytes += static_cast<unsigned __int128>(piece.dropped()) * sizeof(uint64_t);
  }
  return static_cast<uint64_t>(
      std::min<unsigned __int128>(bytes, std::numeric_limits<uint64_t>::max()));
}

}  // namespace muster
