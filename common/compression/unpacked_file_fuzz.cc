#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "common/compression/unpacked_file.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/memory_file.h"

namespace muster {
namespace {

constexpr size_t kLimit = size_t{1} << 20;

// Reads up to kLimit bytes, in parts of `part` bytes.
absl::StatusOr<std::string> ReadBy(const std::string& path, size_t part) {
  auto file = UnpackedFile::Open(path);
  if (!file.ok()) return file.status();
  std::string all;
  std::string bytes(part, '\0');
  while (all.size() < kLimit) {
    const auto got = (*file)->Read(absl::MakeSpan(bytes));
    if (!got.ok()) return got.status();
    all.append(bytes, 0, *got);
    if (*got < part) break;
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile* const file = new MemoryFile();
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  file->Write(bytes);
  const auto large = ReadBy(file->path(), 1 << 16);
  const auto small = ReadBy(file->path(), 1 << 6);
  // A frame that libzstd can unpack at once is checked more closely, and needs no window. So damage
  // may be seen in one of the ways alone.
  if (large.ok() && small.ok()) FUZZ_CHECK(*large == *small);
  for (const absl::Status& status : {large.status(), small.status()}) {
    if (status.ok()) continue;
    FUZZ_CHECK(status.code() == absl::StatusCode::kDataLoss);
    FUZZ_CHECK(absl::StrContains(status.message(), file->path()));
    FUZZ_CHECK(status.message().size() < 500);
  }
  return 0;
}

}  // namespace muster
