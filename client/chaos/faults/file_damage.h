#ifndef MUSTER_CLIENT_CHAOS_FAULTS_FILE_DAMAGE_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_FILE_DAMAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// Something done to one file, as a failing disk or a careless hand would.
struct FileDamage {
  enum class Kind { kFlippedBit, kTruncated };

  // Relative to the folder.
  std::string file;
  Kind kind = Kind::kFlippedBit;
  // Of the byte with the flipped bit, or where the file ends now.
  uint64_t offset = 0;

  // Such as "flipped a bit of logs/1/3.log at byte 4711".
  std::string Describe() const;
};

// Damages one file under `folder`, as `seed` has it: any byte that was ever written may be hit, but
// for holes and trailing zeros, which hold nothing. NotFound: there is no byte to damage.
absl::StatusOr<FileDamage> DamageOneFile(const std::string& folder, uint64_t seed);

// Makes `to`, which is replaced, a copy of the folder `from`, holes included.
absl::Status CopyFolder(const std::string& from, const std::string& to);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_FILE_DAMAGE_H_
