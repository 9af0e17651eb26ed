#include "server/shard/storage/store_keys.h"

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

template <typename T>
void AppendBigEndian(T value, std::string& out) {
  for (int shift = 8 * (sizeof(T) - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> shift));
  }
}

template <typename T>
T LastBigEndian(absl::string_view key) {
  T value = 0;
  for (const char c : key.substr(key.size() - sizeof(T))) {
    value = (value << 8) | static_cast<unsigned char>(c);
  }
  return value;
}

}  // namespace

std::string JobPrefix(absl::string_view job) {
  std::string prefix(job);
  prefix.push_back('\0');
  return prefix;
}

std::string MetaPrefix(absl::string_view job) { return JobPrefix(job) + 'm'; }

std::string MetaKey(absl::string_view job, uint32_t partition) {
  std::string key = MetaPrefix(job);
  AppendBigEndian(partition, key);
  return key;
}

std::string PartitionPrefix(absl::string_view job, uint32_t table, uint32_t partition) {
  std::string prefix = JobPrefix(job) + 'v';
  AppendBigEndian(table, prefix);
  AppendBigEndian(partition, prefix);
  return prefix;
}

void AppendStoreKey(uint64_t key, std::string& prefix) { AppendBigEndian(key, prefix); }

std::string PrefixEnd(std::string prefix) {
  while (static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  ++prefix.back();
  return prefix;
}

uint32_t LastU32(absl::string_view key) { return LastBigEndian<uint32_t>(key); }
uint64_t LastU64(absl::string_view key) { return LastBigEndian<uint64_t>(key); }

absl::Status CheckJobId(absl::string_view job) {
  if (job.empty()) return absl::InvalidArgumentError("the job id is empty");
  if (const size_t at = job.find('\0'); at != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job id '", job.substr(0, at), "...' has a NUL byte at position ", at));
  }
  return absl::OkStatus();
}

absl::Status CheckAscending(absl::Span<const uint64_t> keys) {
  for (size_t i = 1; i < keys.size(); ++i) {
    if (keys[i - 1] >= keys[i]) {
      return absl::InvalidArgumentError(
          absl::StrCat("keys to read must be strictly ascending; key ", i, " is ", keys[i],
                       " after ", keys[i - 1]));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
