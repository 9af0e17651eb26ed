#ifndef MUSTER_SERVER_DATA_FOLDER_DATABASE_LOGS_H_
#define MUSTER_SERVER_DATA_FOLDER_DATABASE_LOGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// RocksDB keeps its latest writes, and the list of its files, in logs: blocks of 32 KiB with
// records of a checksum, a length, a type (a whole record, or a first, middle or last part of one)
// and bytes. None of RocksDB's recovery modes tells the end of a write that a crash cut short from
// damage to what was written before: where a length is damaged, they take all that follows for the
// end. So logs are read here before RocksDB reads them.
//
// A log ends torn where its last record is cut short, or zeros stand in place of its end, and no
// sound record follows. It is damaged where a record is not sound and another one follows, or the
// last one is there in its full length.

// What a log's bytes say.
struct LogState {
  enum class End { kSound, kTorn, kDamaged };
  End end = End::kSound;
  // Where the last record ends that is sound with all before it.
  uint64_t sound_bytes = 0;
  // Of records that begin with a sequence number and a count of writes, as write-ahead logs' do:
  // the first number, and the one due after the last record. Equal: there is no record.
  uint64_t first_sequence = 0;
  uint64_t next_sequence = 0;
};
LogState ReadLog(absl::string_view bytes);

// Checks the logs of the database in `folder`, which nobody has open, and cuts what is torn off its
// write-ahead logs. DataLoss: a log is damaged, or a later one goes on elsewhere than a torn one
// ended; names the file and the byte, and says what to do. Nothing is cut then.
absl::Status CheckDatabaseLogs(const std::string& folder);

}  // namespace muster

#endif  // MUSTER_SERVER_DATA_FOLDER_DATABASE_LOGS_H_
