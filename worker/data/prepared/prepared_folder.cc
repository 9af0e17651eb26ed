#include "worker/data/prepared/prepared_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/file_error.h"
#include "common/program/content_hash.h"
#include "common/text/format_bytes.h"
#include "common/tokenizer/files/open_tokenizer.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr char kTokens[] = ".tokens";
constexpr char kLock[] = ".lock";
// Progress is told so many times.
constexpr uint64_t kTimesTold = 20;

// An open file that is locked until this object is gone.
class FileLock {
 public:
  FileLock() = default;
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  bool held() const { return descriptor_ >= 0; }
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

// Opens a file and locks it by an operation of flock(2). Returns no lock if another one is in its
// way, which LOCK_NB says, or if the file is not there and `flags` do not make it.
absl::StatusOr<FileLock> Lock(const std::string& path, int flags, int operation) {
  while (true) {
    const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0 && errno == ENOENT) return FileLock();
    if (descriptor < 0) return FileError("open", path, errno);
    FileLock lock(descriptor);
    int failed = -1;
    do {
      failed = ::flock(descriptor, operation);
    } while (failed != 0 && errno == EINTR);
    if (failed != 0 && errno == EWOULDBLOCK) return FileLock();
    if (failed != 0) return FileError("lock", path, errno);
    // Another process may have removed the file meanwhile.
    struct stat locked, there;
    if (::fstat(descriptor, &locked) != 0) return FileError("inspect", path, errno);
    if (::stat(path.c_str(), &there) == 0 && there.st_ino == locked.st_ino) return lock;
  }
}

// The files in the folder that one key has.
struct KeyFiles {
  uint64_t bytes = 0;
  fs::file_time_type used = fs::file_time_type::min();
  std::vector<fs::path> paths;
};

std::map<std::string, KeyFiles> FilesByKey(const std::string& folder) {
  std::map<std::string, KeyFiles> keys;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::string key = name.substr(0, name.find('.'));
    // Whatever else lies there is nobody's to remove.
    if (!IsContentName(key)) continue;
    KeyFiles& files = keys[key];
    std::error_code gone;
    const uint64_t bytes = entry.file_size(gone);
    if (!gone) files.bytes += bytes;
    if (entry.path().extension() == kLock) continue;
    files.used = std::max(files.used, entry.last_write_time(gone));
    files.paths.push_back(entry.path());
  }
  return keys;
}

}  // namespace

PreparedFile::PreparedFile(int lock, std::unique_ptr<const TokenFile> file)
    : lock_(lock), file_(std::move(file)) {}

PreparedFile::~PreparedFile() { ::close(lock_); }

std::string PreparedFolder::At(const std::string& key, absl::string_view ending) const {
  return absl::StrCat(options_.folder, "/", key, ending);
}

absl::Status PreparedFolder::CheckFolder() const {
  std::error_code error;
  fs::create_directories(fs::path(options_.folder).parent_path(), error);
  if (::mkdir(options_.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError("make the folder", options_.folder, errno);
  }
  struct stat there;
  if (::lstat(options_.folder.c_str(), &there) != 0) {
    return FileError("inspect", options_.folder, errno);
  }
  if (S_ISDIR(there.st_mode) && there.st_uid == ::geteuid() && (there.st_mode & 022) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(options_.folder,
                   " is no folder to which this worker's user alone can write, so others could "
                   "change the data that tasks prepare there; name another one with the "
                   "worker's --prepared-folder"));
}

absl::StatusOr<std::unique_ptr<const PreparedFile>> PreparedFolder::Use(
    const std::string& path) const {
  MUSTER_ASSIGN_OR_RETURN(FileLock lock, Lock(path, O_RDONLY, LOCK_SH));
  if (!lock.held()) return absl::NotFoundError(path);
  FileContentOptions own;
  own.named_by = FileContentOptions::NamedBy::kThisProgram;
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const TokenFile> file, TokenFile::Open(path, own));
  // Says when the file was last used.
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return std::make_unique<const PreparedFile>(lock.Release(), std::move(file));
}

absl::Status PreparedFolder::MakeRoom(const std::string& key, uint64_t bytes) const {
  std::set<std::string> kept = {key};
  while (true) {
    const std::map<std::string, KeyFiles> keys = FilesByKey(options_.folder);
    uint64_t sum = bytes;
    const std::pair<const std::string, KeyFiles>* oldest = nullptr;
    for (const auto& entry : keys) {
      if (entry.first != key) sum += entry.second.bytes;
      if (kept.count(entry.first) > 0) continue;
      if (oldest == nullptr || entry.second.used < oldest->second.used) oldest = &entry;
    }
    if (sum <= options_.most_bytes) return absl::OkStatus();
    if (oldest == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "prepared data would take ", FormatBytes(static_cast<double>(sum)), " in ",
          options_.folder, ", more than the ",
          FormatBytes(static_cast<double>(options_.most_bytes)),
          " that the worker's --prepared-bytes allows, and tasks use all of them; allow more, or "
          "make the token file yourself, with `muster data tokenize`, and name that"));
    }
    kept.insert(oldest->first);
    // Nobody makes it, and nobody uses it.
    const std::string lock_path = At(oldest->first, kLock);
    MUSTER_ASSIGN_OR_RETURN(const FileLock makes,
                            Lock(lock_path, O_RDWR | O_CREAT, LOCK_EX | LOCK_NB));
    if (!makes.held()) continue;
    const std::string tokens = At(oldest->first, kTokens);
    MUSTER_ASSIGN_OR_RETURN(const FileLock uses, Lock(tokens, O_RDONLY, LOCK_EX | LOCK_NB));
    if (!uses.held() && ::access(tokens.c_str(), F_OK) == 0) continue;
    for (const fs::path& path : oldest->second.paths) ::unlink(path.c_str());
    ::unlink(lock_path.c_str());
  }
}

absl::StatusOr<std::unique_ptr<const PreparedFile>> PreparedFolder::Prepare(
    const PreparedSource& source) const {
  if (source.tokenizer.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Data '", source.path, "' are to become tokens, but no tokenizer is named; ",
                     "name it in data.sequences.tokenizer (\"bytes\": each byte is a token)"));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const Tokenizer> tokenizer,
                          OpenTokenizer(source.tokenizer));
  MUSTER_ASSIGN_OR_RETURN(const DocumentSource documents,
                          FindDocuments(source.path, source.arguments.raw));
  if (documents.form == DocumentSource::Form::kTokenFile) {
    return absl::InvalidArgumentError(
        absl::StrCat("Data '", source.path, "' are token files; name one of them by itself as ",
                     "data.sequences.path, without a tokenizer"));
  }
  MUSTER_ASSIGN_OR_RETURN(SourceOptions options,
                          OpenSourceOptions(source.arguments, source.tokenizer));
  MUSTER_ASSIGN_OR_RETURN(const std::string made_of,
                          TokenFileSource(documents, options.documents, *tokenizer));
  ContentHash hash;
  hash.Add(made_of);
  const std::string key = hash.Name();
  MUSTER_RETURN_IF_ERROR(CheckFolder());
  const std::string lock_path = At(key, kLock);
  MUSTER_ASSIGN_OR_RETURN(FileLock lock, Lock(lock_path, O_RDWR | O_CREAT, LOCK_EX | LOCK_NB));
  if (!lock.held()) {
    Tell(absl::StrCat("another task prepares ", source.path));
    MUSTER_ASSIGN_OR_RETURN(lock, Lock(lock_path, O_RDWR | O_CREAT, LOCK_EX));
    Tell("");
  }
  Pass("locked");
  const std::string path = At(key, kTokens);
  auto used = Use(path);
  if (used.ok()) return used;
  // One that is damaged is made again.
  if (!absl::IsNotFound(used.status()) && !absl::IsDataLoss(used.status())) return used;
  MUSTER_RETURN_IF_ERROR(MakeRoom(key, 0));
  uint64_t read = 0;
  uint64_t told = 0;
  const auto tell = [&](uint64_t bytes) {
    read += bytes;
    const uint64_t times = std::min(kTimesTold, kTimesTold * read / documents.bytes);
    if (times < told) return;
    told = times + 1;
    Tell(absl::StrCat("preparing ", source.path, ": ", 100 * times / kTimesTold, " %"));
  };
  tell(0);
  options.documents.json.progress = options.documents.tokens.progress = tell;
  TokenizeOptions tokenize = options_.tokenize;
  tokenize.threads = options_.threads;
  tokenize.added = [&](uint64_t bytes) {
    Pass("added");
    return MakeRoom(key, bytes);
  };
  const absl::StatusOr<TokenFileSummary> made =
      MakeTokenFile(documents, options.documents, *tokenizer, tokenize, path, Replace::kFiles);
  Tell("");
  MUSTER_RETURN_IF_ERROR(made.status());
  Pass("made");
  return Use(path);
}

}  // namespace muster
