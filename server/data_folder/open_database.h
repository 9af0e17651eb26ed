#ifndef MUSTER_SERVER_DATA_FOLDER_OPEN_DATABASE_H_
#define MUSTER_SERVER_DATA_FOLDER_OPEN_DATABASE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocksdb {
class DB;
struct Options;
}  // namespace rocksdb

namespace muster {

// Opens the RocksDB in `folder`, which exists, after a look at its logs (database_logs.h): what a
// crash cut short is cut off, and damage to what was written before is refused. `what` names the
// database in errors; the mode in which RocksDB reads its write-ahead log is set here. Unavailable:
// another process has it open, or the disk fails. DataLoss: it is damaged; names the file as far as
// that can be told, and leaves it as it is.
absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenDatabase(rocksdb::Options options,
                                                          const std::string& folder,
                                                          absl::string_view what);

}  // namespace muster

#endif  // MUSTER_SERVER_DATA_FOLDER_OPEN_DATABASE_H_
