#include "server/data_folder/database_logs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/file_error.h"

namespace muster {
namespace {

constexpr uint64_t kBlockBytes = 32768;
// Bytes of a record's header: checksum (4), length (2), type (1).
constexpr uint64_t kHeaderBytes = 7;
constexpr uint64_t kTypeAt = 6;
enum RecordType : unsigned char { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };
// Bytes at the start of a batch of writes: sequence number (8), count (4).
constexpr size_t kBatchHeaderBytes = 12;
// Disks write sectors whole.
constexpr uint64_t kSectorBytes = 512;

// Returns the little-endian number in these bytes.
uint64_t Number(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

uint64_t BlockEnd(uint64_t at) { return (at / kBlockBytes + 1) * kBlockBytes; }

struct Header {
  uint32_t checksum = 0;
  uint64_t length = 0;
  unsigned char type = 0;
};

// Returns the header at `at`. REQUIRES: the bytes hold one there.
Header HeaderAt(absl::string_view bytes, uint64_t at) {
  return {.checksum = static_cast<uint32_t>(Number(bytes.substr(at, 4))),
          .length = Number(bytes.substr(at + 4, 2)),
          .type = static_cast<unsigned char>(bytes[at + kTypeAt])};
}

// Returns whether a sound record lies at `at`, and its length with the header.
bool IsRecord(absl::string_view bytes, uint64_t at, uint64_t& record_bytes) {
  const uint64_t end = std::min<uint64_t>(bytes.size(), BlockEnd(at));
  if (at + kHeaderBytes > end) return false;
  const Header header = HeaderAt(bytes, at);
  record_bytes = kHeaderBytes + header.length;
  return header.type >= kWhole && header.type <= kLast && at + record_bytes <= end &&
         header.checksum == MaskedCrc32c(bytes.substr(at + kTypeAt, 1 + header.length));
}

// Returns whether bytes at `at` look like a record: a cheap check before checksums are computed.
bool MayBeRecord(absl::string_view bytes, uint64_t at, uint64_t end) {
  if (at + kHeaderBytes > end) return false;
  const Header header = HeaderAt(bytes, at);
  const uint64_t next = at + kHeaderBytes + header.length;
  return header.type >= kWhole && header.type <= kLast && next <= end &&
         (next + kHeaderBytes > end || static_cast<unsigned char>(bytes[next + kTypeAt]) <= kLast);
}

// Returns whether a sound record follows the bad one at `bad`: anywhere in its block, since where
// records begin there is no longer known, or at the start of a later block.
bool RecordsFollow(absl::string_view bytes, uint64_t bad) {
  uint64_t unused = 0;
  const uint64_t block_end = BlockEnd(bad);
  const uint64_t end = std::min<uint64_t>(bytes.size(), block_end);
  for (uint64_t at = bad + 1; at < end; ++at) {
    if (MayBeRecord(bytes, at, end) && IsRecord(bytes, at, unused)) return true;
  }
  for (uint64_t at = block_end; at < bytes.size(); at += kBlockBytes) {
    if (IsRecord(bytes, at, unused)) return true;
  }
  return false;
}

// Returns whether a crash cut short the write at `bad`. REQUIRES: no sound record follows.
bool IsTorn(absl::string_view bytes, uint64_t bad) {
  const absl::string_view rest = bytes.substr(bad);
  if (rest.size() < kHeaderBytes) return true;
  // Sectors that never reached the disk read as zeros.
  const size_t last = rest.find_last_not_of('\0');
  if (last == absl::string_view::npos) return true;
  const uint64_t zeros_from = bad + last + 1;
  if (RoundUp(zeros_from, kSectorBytes) < bytes.size()) return true;
  const Header header = HeaderAt(bytes, bad);
  const bool ends_beyond = bad + kHeaderBytes + header.length > bytes.size() &&
                           bad + kHeaderBytes + header.length <= BlockEnd(bad);
  // A damaged length looks the same, except that all bytes of the record are there.
  return ends_beyond && header.checksum != MaskedCrc32c(rest.substr(kTypeAt));
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return FileError("list", folder, error.value());
  // Numbers in names of logs have six digits or more, so longer names come later.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}

absl::StatusOr<LogState> StateOf(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const FileContent file,
                          FileContent::Open(path, {.map_from_bytes = size_t{1} << 20}));
  return ReadLog(file.bytes());
}

absl::Status Cut(const std::string& path, uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  const int error = ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 && ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error == 0 ? absl::OkStatus() : FileError("cut", path, error);
}

absl::Status DamagedLog(const std::string& path, const LogState& state, absl::string_view reason) {
  return absl::DataLossError(absl::StrCat(
      path, " is damaged at byte ", state.sound_bytes, ": ", reason,
      "; restore its folder from a backup or, to go on without all that was written from there on, "
      "run truncate -s ",
      state.sound_bytes, " ", path));
}

}  // namespace

LogState ReadLog(absl::string_view bytes) {
  LogState state;
  // The start of the present record, and whether parts of it are still to come.
  std::string batch_header;
  bool unfinished = false;
  bool any = false;
  for (uint64_t at = 0; at < bytes.size();) {
    // A header that does not fit begins the next block.
    if (BlockEnd(at) - at < kHeaderBytes) {
      at = BlockEnd(at);
      continue;
    }
    uint64_t record_bytes = 0;
    const bool sound = IsRecord(bytes, at, record_bytes);
    const unsigned char type = sound ? HeaderAt(bytes, at).type : 0;
    const bool begins = type == kWhole || type == kFirst;
    if (!sound || begins == unfinished) {
      const bool torn = !sound && !RecordsFollow(bytes, at) && IsTorn(bytes, at);
      state.end = torn ? LogState::End::kTorn : LogState::End::kDamaged;
      return state;
    }
    if (begins) batch_header.clear();
    const absl::string_view part = bytes.substr(at + kHeaderBytes, record_bytes - kHeaderBytes);
    absl::StrAppend(&batch_header, part.substr(0, kBatchHeaderBytes - batch_header.size()));
    at += record_bytes;
    unfinished = type == kFirst || type == kMiddle;
    if (unfinished) continue;
    state.sound_bytes = at;
    if (batch_header.size() < kBatchHeaderBytes) continue;
    const absl::string_view header = batch_header;
    const uint64_t sequence = Number(header.substr(0, 8));
    if (!any) state.first_sequence = sequence;
    any = true;
    state.next_sequence = sequence + Number(header.substr(8, 4));
  }
  if (unfinished) state.end = LogState::End::kTorn;
  return state;
}

absl::Status CheckDatabaseLogs(const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  struct Torn {
    std::string path;
    LogState state;
  };
  std::vector<Torn> torn;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (absl::StartsWith(name, "MANIFEST-")) {
      MUSTER_ASSIGN_OR_RETURN(const LogState state, StateOf(path));
      if (state.end == LogState::End::kDamaged) {
        return absl::DataLossError(absl::StrCat(path, ", the list of the database's files, is ",
                                                "damaged at byte ", state.sound_bytes,
                                                "; restore its folder from a backup"));
      }
    }
    if (!absl::EndsWith(name, ".log") || !absl::ascii_isdigit(name[0])) continue;
    MUSTER_ASSIGN_OR_RETURN(const LogState state, StateOf(path));
    if (state.end == LogState::End::kDamaged) {
      return DamagedLog(path, state,
                        "the record there is not sound, and a crash did not cut it short");
    }
    const bool any = state.first_sequence != state.next_sequence;
    if (any && !torn.empty() && torn.back().state.next_sequence != state.first_sequence) {
      return DamagedLog(torn.back().path, torn.back().state,
                        absl::StrCat("it ends before write ", torn.back().state.next_sequence,
                                     ", and ", path, " goes on with write ", state.first_sequence));
    }
    if (state.end == LogState::End::kTorn) torn.push_back({path, state});
  }
  for (const Torn& log : torn) MUSTER_RETURN_IF_ERROR(Cut(log.path, log.state.sound_bytes));
  return absl::OkStatus();
}

}  // namespace muster
