#ifndef MUSTER_CLIENT_CHAOS_FAULTS_FILE_DAMAGE_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_FILE_DAMAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// Damage done to one file, as by a failing disk or by mistake.
struct FileDamage {
  enum class Kind { kFlippedBit, kTruncated };

  // Path relative to the folder.
  std::string file;
  Kind kind = Kind::kFlippedBit;
  // Position of the byte with the flipped bit, or the file's new end.
  uint64_t offset = 0;

  // Returns a text such as "flipped a bit of logs/1/3.log at byte 4711".
  std::string Describe() const;
};

// Damages one file under `folder`, chosen by `seed`. Any byte that was ever written may be hit,
// except for holes and trailing zeros, which hold nothing. NotFound: there is no byte to damage.
absl::StatusOr<FileDamage> DamageOneFile(const std::string& folder, uint64_t seed);

// Replaces `to` by a copy of the folder `from`, holes included.
absl::Status CopyFolder(const std::string& from, const std::string& to);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_FILE_DAMAGE_H_
