#ifndef MUSTER_COMMON_PARQUET_BIT_PACKING_H_
#define MUSTER_COMMON_PARQUET_BIT_PACKING_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster {

// Returns the `width` bits from bit `first` on, counted from the lowest bit of the first byte.
// Bits behind the bytes are 0. REQUIRES: width <= 64.
uint64_t BitsAt(absl::string_view bytes, uint64_t first, int width);

// Takes a number of 7 bits a byte off the front. Returns false where the bytes end within it, or it
// has more than 64 bits.
bool TakeVarint(absl::string_view& bytes, uint64_t& value);

// Decodes numbers of up to 32 bits in runs, each of which is a number with its count or numbers
// packed bit by bit (Parquet's RLE encoding). Memory does not grow with a run. Not thread-safe.
class RunDecoder {
 public:
  RunDecoder() = default;
  // `bytes` outlive this object. REQUIRES: width <= 32.
  RunDecoder(absl::string_view bytes, int width) : rest_(bytes), width_(width) {}

  // Decodes the next number. Returns false where the bytes are damaged or end.
  bool Next(uint32_t& value);

 private:
  bool BeginRun();

  absl::string_view rest_;
  int width_ = 0;
  // Numbers left of the run.
  uint64_t left_ = 0;
  // The run's packed numbers and the next one's first bit; otherwise all numbers are repeated_.
  absl::string_view packed_;
  bool is_packed_ = false;
  uint64_t bit_ = 0;
  uint32_t repeated_ = 0;
};

// Decodes numbers that are stored by their differences, in blocks (Parquet's DELTA_BINARY_PACKED).
// Not thread-safe, and cheap to copy.
class DeltaDecoder {
 public:
  // Reads the header. Returns false if it is damaged. `bytes` outlive this object.
  bool Start(absl::string_view bytes);

  // The number of all numbers, and of those that are left.
  uint64_t left() const { return left_; }
  // Decodes the next number. Returns false where the bytes are damaged or end, or nothing is left.
  bool Next(int64_t& value);

  // Returns the bytes behind the numbers. REQUIRES: none is left.
  absl::string_view rest() const { return rest_; }

 private:
  bool BeginMiniblock();

  // Behind the miniblock.
  absl::string_view rest_;
  uint64_t left_ = 0;
  uint64_t miniblocks_ = 0;
  uint64_t numbers_ = 0;
  bool first_ = true;
  uint64_t value_ = 0;
  uint64_t least_delta_ = 0;
  // Widths of the block's miniblocks that follow.
  absl::string_view widths_;
  absl::string_view miniblock_;
  int width_ = 0;
  uint64_t left_in_miniblock_ = 0;
  uint64_t bit_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_BIT_PACKING_H_
