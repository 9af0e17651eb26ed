#include "common/base/fingerprint.h"

#include <xxhash.h>

namespace muster {

struct FingerprintStream::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

uint64_t Fingerprint(absl::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

FingerprintStream::FingerprintStream() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(state_->xxh);
}

FingerprintStream::~FingerprintStream() = default;

void FingerprintStream::Add(const void* data, size_t bytes) {
  XXH3_64bits_update(state_->xxh, data, bytes);
}

uint64_t FingerprintStream::Finish() const { return XXH3_64bits_digest(state_->xxh); }

}  // namespace muster
