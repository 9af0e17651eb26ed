#include "server/shard/storage/fake_log_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/files/parent_folder.h"

namespace muster {
namespace {

constexpr size_t kSectorBytes = 512;

absl::Status Missing(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("there is no ", path));
}

}  // namespace

class FakeLogFileSystem::File final : public LogFile {
 public:
  File(FakeLogFileSystem& system, std::shared_ptr<Inode> inode, std::string path)
      : system_(system), inode_(std::move(inode)), path_(std::move(path)), born_(system.crashes_) {}

  absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (absl::Status status = Check(Operation::kRead); !status.ok()) return status;
    const std::string& bytes = inode_->current;
    if (offset >= bytes.size()) return 0;
    const size_t n = std::min<size_t>(out.size(), bytes.size() - offset);
    std::memcpy(out.data(), bytes.data() + offset, n);
    return n;
  }

  absl::StatusOr<size_t> Write(uint64_t offset,
                               absl::Span<const absl::Span<const std::byte>> pieces) override {
    std::string bytes;
    for (const absl::Span<const std::byte>& piece : pieces) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    const absl::Status status = Check(Operation::kWrite);
    if (bytes.size() > system_.max_write_bytes_) bytes.resize(system_.max_write_bytes_);
    // A write that fails has written half of it.
    if (!status.ok()) bytes.resize(bytes.size() / 2);
    std::string& current = inode_->current;
    if (offset + bytes.size() > current.size()) current.resize(offset + bytes.size());
    current.replace(offset, bytes.size(), bytes);
    if (!status.ok()) return status;
    return bytes.size();
  }

  absl::Status WriteBlocks(uint64_t offset,
                           absl::Span<const absl::Span<const std::byte>> blocks) override {
    for (const absl::Span<const std::byte>& piece : blocks) {
      // A bug of the caller, which a real disk would refuse.
      if (offset % kBlockBytes != 0 || piece.size() % kBlockBytes != 0 ||
          reinterpret_cast<uintptr_t>(piece.data()) % kBlockBytes != 0) {
        std::abort();
      }
      for (size_t done = 0; done < piece.size();) {
        const absl::Span<const std::byte> rest = piece.subspan(done);
        absl::StatusOr<size_t> written = Write(offset, absl::MakeConstSpan(&rest, 1));
        if (!written.ok()) return written.status();
        done += *written;
        offset += *written;
      }
    }
    return absl::OkStatus();
  }

  bool keeps_space() const override { return system_.keeps_space_; }

  absl::Status Allocate(uint64_t bytes) override {
    if (absl::Status status = Check(Operation::kAllocate); !status.ok()) return status;
    const uint64_t more = bytes - std::min<uint64_t>(bytes, inode_->current.size());
    if (system_.UsedBytes() + more > system_.capacity_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat("no space for ", path_));
    }
    inode_->current.resize(std::max<uint64_t>(bytes, inode_->current.size()));
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (absl::Status status = Check(Operation::kSync); !status.ok()) return status;
    inode_->durable = inode_->current;
    ++system_.syncs_;
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Size() override { return inode_->current.size(); }

 private:
  absl::Status Check(Operation operation) const {
    // A bug of the test, not of what it tests.
    if (born_ != system_.crashes_) std::abort();
    return system_.Check(operation, path_);
  }

  FakeLogFileSystem& system_;
  const std::shared_ptr<Inode> inode_;
  const std::string path_;
  const uint64_t born_;
};

absl::Status FakeLogFileSystem::Check(Operation operation, const std::string& path) const {
  return fault_ == nullptr ? absl::OkStatus() : fault_(operation, path);
}

void FakeLogFileSystem::Apply(const Change& change, Names& names) {
  for (const auto& [name, inode] : change.names) {
    if (inode == nullptr) {
      names.erase(name);
    } else {
      names[name] = inode;
    }
  }
}

void FakeLogFileSystem::Record(const std::string& path,
                               std::map<std::string, std::shared_ptr<Inode>> names) {
  changes_.push_back({ParentFolder(path), std::move(names)});
  Apply(changes_.back(), names_);
}

uint64_t FakeLogFileSystem::UsedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, inode] : names_) bytes += inode->current.size();
  return bytes;
}

absl::StatusOr<std::unique_ptr<LogFile>> FakeLogFileSystem::Open(const std::string& path,
                                                                 Mode mode) {
  if (absl::Status status = Check(Operation::kOpen, path); !status.ok()) return status;
  const auto at = names_.find(path);
  std::shared_ptr<Inode> inode;
  if (at != names_.end()) inode = at->second;
  if (inode == nullptr) {
    if (mode == Mode::kOpen || names_.count(ParentFolder(path)) == 0) return Missing(path);
    inode = std::make_shared<Inode>();
    Record(path, {{path, inode}});
  } else if (mode == Mode::kCreate) {
    inode->current.clear();
  }
  return std::make_unique<File>(*this, std::move(inode), path);
}

absl::StatusOr<std::vector<std::string>> FakeLogFileSystem::List(const std::string& directory) {
  if (names_.count(directory) == 0) return Missing(directory);
  std::vector<std::string> names;
  for (const auto& [name, inode] : names_) {
    if (ParentFolder(name) == directory) names.push_back(name.substr(directory.size() + 1));
  }
  return names;
}

absl::Status FakeLogFileSystem::CreateDirectory(const std::string& directory) {
  if (names_.count(directory) == 0) Record(directory, {{directory, std::make_shared<Inode>()}});
  return absl::OkStatus();
}

absl::Status FakeLogFileSystem::Remove(const std::string& path) {
  if (absl::Status status = Check(Operation::kRemove, path); !status.ok()) return status;
  if (names_.count(path) == 0) return Missing(path);
  for (const auto& [name, inode] : names_) {
    if (ParentFolder(name) == path) {
      return absl::UnavailableError(absl::StrCat("the directory ", path, " is not empty"));
    }
  }
  Record(path, {{path, nullptr}});
  return absl::OkStatus();
}

absl::Status FakeLogFileSystem::Rename(const std::string& from, const std::string& to) {
  if (absl::Status status = Check(Operation::kRename, from); !status.ok()) return status;
  const auto at = names_.find(from);
  if (at == names_.end()) return Missing(from);
  Record(from, {{from, nullptr}, {to, at->second}});
  return absl::OkStatus();
}

absl::Status FakeLogFileSystem::SyncDirectory(const std::string& directory) {
  if (absl::Status status = Check(Operation::kSyncDirectory, directory); !status.ok()) {
    return status;
  }
  std::vector<Change> left;
  for (const Change& change : changes_) {
    if (change.directory == directory) {
      Apply(change, durable_names_);
    } else {
      left.push_back(change);
    }
  }
  changes_ = std::move(left);
  return absl::OkStatus();
}

void FakeLogFileSystem::Crash(uint64_t seed) {
  uint64_t state = seed;
  const auto random = [&state] { return MixBits(state += 0x9e3779b97f4a7c15); };
  const size_t survivors = random() % (changes_.size() + 1);
  for (size_t i = 0; i < survivors; ++i) Apply(changes_[i], durable_names_);
  changes_.clear();
  names_ = durable_names_;
  for (const auto& [name, inode] : names_) {
    std::string after = inode->durable;
    if (inode->current.size() != after.size() && random() % 2 == 0) {
      after.resize(inode->current.size());
    }
    for (size_t at = 0; at < after.size(); at += kSectorBytes) {
      if (at >= inode->current.size() || random() % 2 == 0) continue;
      const size_t n = std::min({kSectorBytes, after.size() - at, inode->current.size() - at});
      after.replace(at, n, inode->current, at, n);
    }
    inode->current = after;
    inode->durable = after;
  }
  ++crashes_;
}

std::string& FakeLogFileSystem::contents(const std::string& path) {
  const auto at = names_.find(path);
  if (at == names_.end()) std::abort();
  return at->second->current;
}

}  // namespace muster
