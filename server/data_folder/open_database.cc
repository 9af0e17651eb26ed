#include "server/data_folder/open_database.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/data_folder/database_logs.h"

namespace muster {
namespace {

constexpr absl::string_view kRemedy = "; restore its folder from a backup";

// Checks the file CURRENT, which names the list of files and where RocksDB begins to read. Without
// it RocksDB would take the folder for a new one, and its files for rubbish.
absl::Status CheckStart(const std::string& folder) {
  const std::string current = folder + "/CURRENT";
  rocksdb::Env* const env = rocksdb::Env::Default();
  if (env->FileExists(current).ok()) {
    std::string text;
    if (!rocksdb::ReadFileToString(env, current, &text).ok()) return absl::OkStatus();
    const absl::string_view name = absl::StripTrailingAsciiWhitespace(text);
    if (absl::StartsWith(name, "MANIFEST-") &&
        env->FileExists(absl::StrCat(folder, "/", name)).ok()) {
      return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrCat(current, " is damaged: it names no file that is there", kRemedy));
  }
  std::vector<std::string> names;
  if (!env->GetChildren(folder, &names).ok()) return absl::OkStatus();
  for (const std::string& name : names) {
    // A first start that was cut short has not made the files yet.
    if (absl::EndsWith(name, ".sst") || absl::EndsWith(name, ".log")) {
      return absl::DataLossError(
          absl::StrCat(current, " is missing, and ", name, " is there", kRemedy));
    }
  }
  return absl::OkStatus();
}

// Returns what is damaged, as far as it is known: RocksDB's errors do not always say.
std::string DamagedFiles(const std::string& folder) {
  std::string text;
  const rocksdb::Status read =
      rocksdb::ReadFileToString(rocksdb::Env::Default(), folder + "/CURRENT", &text);
  if (!read.ok()) return "";
  return absl::StrCat("; damaged: ", folder, "/", absl::StripTrailingAsciiWhitespace(text),
                      ", or a file that it names");
}

}  // namespace

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenDatabase(rocksdb::Options options,
                                                          const std::string& folder,
                                                          absl::string_view what) {
  // The lock of RocksDB keeps others from writing to the logs while they are checked.
  rocksdb::Env* const env = rocksdb::Env::Default();
  rocksdb::FileLock* lock = nullptr;
  if (const rocksdb::Status locked = env->LockFile(folder + "/LOCK", &lock); !locked.ok()) {
    return absl::UnavailableError(absl::StrCat(
        what, " in ", folder, " is in use by another process, or cannot be locked: ",
        locked.ToString(), "; stop that process, or give this one a data directory of its own"));
  }
  absl::Status logs = CheckStart(folder);
  if (logs.ok()) logs = CheckDatabaseLogs(folder);
  env->UnlockFile(lock);
  if (!logs.ok()) {
    return absl::Status(logs.code(), absl::StrCat("cannot open ", what, ": ", logs.message()));
  }
  // The check leaves nothing that RocksDB could pass over.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, folder, &db);
  if (status.ok()) return std::unique_ptr<rocksdb::DB>(db);
  const std::string message =
      absl::StrCat("cannot open ", what, " in ", folder, ": ", status.ToString());
  if (!status.IsCorruption()) return absl::UnavailableError(message);
  return absl::DataLossError(absl::StrCat(message, DamagedFiles(folder), kRemedy));
}

}  // namespace muster
