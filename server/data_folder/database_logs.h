#ifndef MUSTER_SERVER_DATA_FOLDER_DATABASE_LOGS_H_
#define MUSTER_SERVER_DATA_FOLDER_DATABASE_LOGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// RocksDB keeps its latest writes, and the list of its files, in logs: blocks of 32 KiB with
// records. A record is a checksum, a length, a type (whole, or the first, a middle or the last part
// of one) and bytes. None of RocksDB's recovery modes tells a write that a crash cut short from
// damage to earlier writes: at a damaged length, they take all that follows for the torn end. So
// logs are read here before RocksDB reads them.
//
// A log is torn if its last record is cut short, or zeros stand in place of its end, and no sound
// record follows. It is damaged if an unsound record has its full length or a sound one follows.

// The state of a log.
struct LogState {
  enum class End { kSound, kTorn, kDamaged };
  End end = End::kSound;
  // End of the last record that is sound with all before it.
  uint64_t sound_bytes = 0;
  // First sequence number, and the one due after the last record, of records that begin with a
  // sequence number and a count of writes, as in write-ahead logs. Equal: there is no such record.
  uint64_t first_sequence = 0;
  uint64_t next_sequence = 0;
};
LogState ReadLog(absl::string_view bytes);

// Checks the logs of the database in `folder`, which must not be open, and cuts torn ends off its
// write-ahead logs. DataLoss, with nothing cut: a log is damaged, or a log goes on elsewhere than
// the torn one before it ended; names the file and the byte, and says what to do.
absl::Status CheckDatabaseLogs(const std::string& folder);

}  // namespace muster

#endif  // MUSTER_SERVER_DATA_FOLDER_DATABASE_LOGS_H_
