#ifndef MUSTER_WORKER_DATA_PREPARED_PREPARED_FOLDER_H_
#define MUSTER_WORKER_DATA_PREPARED_PREPARED_FOLDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/documents/source_options.h"
#include "common/documents/tokenize_documents.h"
#include "common/tokenizer/files/token_file.h"

namespace muster {

// Documents of which a token file is made, as `muster data tokenize` would make it.
struct PreparedSource {
  // A file, a folder or a pattern.
  std::string path;
  std::string tokenizer;
  SourceArguments arguments;
};

// A token file of a PreparedFolder, which stays there while this object lives.
class PreparedFile {
 public:
  PreparedFile(int lock, std::unique_ptr<const TokenFile> file);
  ~PreparedFile();

  PreparedFile(const PreparedFile&) = delete;
  PreparedFile& operator=(const PreparedFile&) = delete;

  const TokenFile& file() const { return *file_; }

 private:
  const int lock_;
  const std::unique_ptr<const TokenFile> file_;
};

// The folder in which the tasks of a machine keep token files that they made.
//
// A file is named by a hash of what it is made of: paths, sizes and times of change of the source's
// files, the options, and fingerprints of tokenizer and chat template (TokenFileSource). The files'
// content is not hashed, since each task of each job would have to read all of it at each start;
// the tasks of a job compare the fingerprints of their tokens anyway.
//
// One task makes a file, and others that need the same one wait for it: they lock KEY.lock. A file
// in use has a shared lock. A task that is killed leaves an unfinished file, with which the next
// one that needs it goes on. Where more than `most_bytes` would be in the folder, the files that
// were not used for the longest time go, without those in use. Thread-safe.
class PreparedFolder {
 public:
  struct Options {
    // Made if it is not there; nobody else may write to it.
    std::string folder;
    uint64_t most_bytes = 0;
    // Threads that encode.
    int threads = 1;
    // Told, for people, what takes time; an empty text: it is over. May be empty.
    std::function<void(absl::string_view text)> tell;
    // Told each point that a test may end the process at: "locked", "added" (again and again) and
    // "made". May be empty.
    std::function<void(absl::string_view point)> passes;
    // Its threads and `added` are of no account.
    TokenizeOptions tokenize;
  };

  explicit PreparedFolder(Options options) : options_(std::move(options)) {}

  // Returns the token file of a source, and makes it first if it is not there. Blocks.
  //
  // InvalidArgument: the documents are refused by file and line, are a token file already, or have
  // no tokenizer. ResourceExhausted: there is no room, since tasks use all other files.
  // FailedPrecondition: others may write to the folder. Other errors: a file cannot be read or
  // written.
  absl::StatusOr<std::unique_ptr<const PreparedFile>> Prepare(const PreparedSource& source) const;

 private:
  absl::Status CheckFolder() const;
  // Returns the file of this name, if it is there and whole, and locks it.
  absl::StatusOr<std::unique_ptr<const PreparedFile>> Use(const std::string& path) const;
  // Removes files until others leave room for `bytes` bytes of `key`.
  absl::Status MakeRoom(const std::string& key, uint64_t bytes) const;
  std::string At(const std::string& key, absl::string_view ending) const;
  void Tell(absl::string_view text) const {
    if (options_.tell) options_.tell(text);
  }
  void Pass(absl::string_view point) const {
    if (options_.passes) options_.passes(point);
  }

  const Options options_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PREPARED_PREPARED_FOLDER_H_
