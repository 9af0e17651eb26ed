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

// Opens the RocksDB in `folder`, which exists, after a check of its logs (database_logs.h): a write
// that a crash cut short is cut off; earlier damage is refused. Sets the recovery mode itself.
// `what` names the database in errors. Unavailable: another process has it open, or the disk fails.
// DataLoss: it is damaged and is left as it is; names the file as far as it is known.
absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenDatabase(rocksdb::Options options,
                                                          const std::string& folder,
                                                          absl::string_view what);

}  // namespace muster

#endif  // MUSTER_SERVER_DATA_FOLDER_OPEN_DATABASE_H_
