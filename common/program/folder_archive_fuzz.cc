#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/storage.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/program/content_hash.h"
#include "common/program/folder_archive.h"

namespace muster {
namespace {

constexpr char kUri[] = "/archive";

// Collects what it takes, and checks what ArchiveSink promises it.
class Collector final : public ArchiveSink {
 public:
  absl::Status Begin(const ArchiveEntry& entry) override {
    const std::string parts = absl::StrCat("/", entry.path, "/");
    for (const char* wrong : {"//", "/./", "/../"}) {
      FUZZ_CHECK(!absl::StrContains(parts, wrong));
    }
    FUZZ_CHECK(entries.empty() || entries.back().first.path < entry.path);
    entries.emplace_back(entry, "");
    return absl::OkStatus();
  }
  absl::Status Content(absl::string_view bytes) override {
    FUZZ_CHECK(!bytes.empty());
    absl::StrAppend(&entries.back().second, bytes);
    return absl::OkStatus();
  }
  absl::Status End() override {
    FUZZ_CHECK(entries.back().second.size() == entries.back().first.bytes);
    return absl::OkStatus();
  }

  std::vector<std::pair<ArchiveEntry, std::string>> entries;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool right_name = input.Choice(2) == 0;
  const std::string archive(input.rest());
  ContentHash hash;
  hash.Add(archive);
  if (!right_name) hash.Add("more");
  MemoryStorage storage;
  FUZZ_CHECK(ReplaceFile(storage, kUri, archive).ok());
  const auto reader = storage.Open(kUri);
  FUZZ_CHECK(reader.ok());
  Collector collector;
  const absl::Status read = ReadArchive(**reader, hash.Name(), collector);
  if (!read.ok()) {
    FUZZ_CHECK(read.code() == absl::StatusCode::kDataLoss);
    FUZZ_CHECK(read.message().size() < 2000);
    return 0;
  }
  FUZZ_CHECK(right_name);
  std::string again;
  ArchiveWriter writer(again);
  for (const auto& [entry, content] : collector.entries) writer.Add(entry, content);
  writer.End();
  FUZZ_CHECK(again == archive);
  return 0;
}

}  // namespace muster
