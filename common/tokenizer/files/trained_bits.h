#ifndef MUSTER_COMMON_TOKENIZER_FILES_TRAINED_BITS_H_
#define MUSTER_COMMON_TOKENIZER_FILES_TRAINED_BITS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/files/spilled_bytes.h"

namespace muster {

// Says whether a model is to learn to predict a token.
enum class Trained { kNo, kYes };

// The trained bit of a token says that a model is to learn to predict it. Bit i % 8 of byte i / 8,
// from the lowest, is token i's; the bits after the last token are 0.

// Collects the trained bits of a file's tokens. Keeps none while all are 1. Not thread-safe.
class TrainedBits {
 public:
  // Long rows of bits are kept in a file in the folder of `beside`, whose errors these are.
  explicit TrainedBits(const std::string& beside) : packed_(beside) {}

  // Appends the same bit `count` times.
  absl::Status Add(uint64_t count, bool trained);

  // The bits that were added, beside `packed`, as a file that is written on later keeps them.
  struct State {
    bool all = true;
    uint64_t bits = 0;
    uint64_t trained = 0;
    unsigned char byte = 0;
  };
  State state() const { return {all_, bits_, trained_, byte_}; }
  void Restore(const State& state);
  SpilledBytes& packed() { return packed_; }

  // Returns how many of the bits are 1.
  uint64_t trained() const { return trained_; }

  // Gives `take` the packed bits in order, some at a time; nothing if all bits are 1. The first
  // error of `take` ends the call. Nothing may be added afterwards.
  absl::Status Finish(absl::FunctionRef<absl::Status(absl::string_view packed)> take);

 private:
  absl::Status Pack(uint64_t count, bool trained);

  bool all_ = true;
  uint64_t bits_ = 0;
  uint64_t trained_ = 0;
  // The last bits, which fill no byte yet.
  unsigned char byte_ = 0;
  SpilledBytes packed_;
};

// Packed trained bits, each chunk of which (token_array.h) is checked before its first bit is read.
// Borrows all bytes. Thread-safe: threads that read one chunk at the same time may both check it.
class CheckedBits {
 public:
  // `checksums` has a little-endian u64 per chunk. `origin` names the bits in messages.
  CheckedBits(absl::string_view packed, absl::string_view checksums, std::string origin);

  // Appends bits [first, first + count) to `out`, as 0 or 1. DataLoss, naming origin and place: a
  // chunk is damaged. REQUIRES: there are as many.
  absl::Status Read(uint64_t first, uint64_t count, std::vector<uint8_t>& out) const;

 private:
  const absl::string_view packed_;
  const absl::string_view checksums_;
  const std::string origin_;
  // True, per chunk, once the chunk was found whole.
  mutable std::vector<std::atomic<bool>> checked_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_TRAINED_BITS_H_
