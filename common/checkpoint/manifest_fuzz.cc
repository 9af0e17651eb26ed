#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "google/protobuf/stubs/logging.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

constexpr char kFolder[] = "/checkpoints/job-1/7";

absl::string_view AsBytes(const uint64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

std::string WithLengthAndChecksum(absl::string_view message) {
  return absl::StrCat(AsBytes(message.size()), message, AsBytes(Fingerprint(message)));
}

bool IsExpected(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDataLoss ||
         status.code() == absl::StatusCode::kFailedPrecondition;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const google::protobuf::LogSilencer silencer;
  FuzzInput input(data, size);
  const bool is_message = input.Choice(2) == 0;
  const std::string uri = JoinUri(kFolder, "MANIFEST");
  MemoryStorage storage;
  FUZZ_CHECK(
      ReplaceFile(storage, uri,
                  is_message ? WithLengthAndChecksum(input.rest()) : std::string(input.rest()))
          .ok());
  const auto manifest = ReadManifest(storage, kFolder);
  // Names of files are quoted.
  const size_t most_text = 1000 + size;
  if (!manifest.ok()) {
    FUZZ_CHECK(IsExpected(manifest.status()));
    FUZZ_CHECK(manifest.status().message().size() < most_text);
    return 0;
  }
  const uint64_t files = manifest->files_size();
  FUZZ_CHECK(files >= manifest->schema().partitions() ||
             (files > 0 && files == manifest->rank_files()));
  const auto audit = AuditCheckpoint(storage, kFolder);
  if (audit.ok()) {
    for (const absl::Status& damage : audit->damage) {
      FUZZ_CHECK(damage.code() == absl::StatusCode::kDataLoss);
      FUZZ_CHECK(damage.message().size() < most_text);
    }
  }
  const std::string message = manifest->SerializeAsString();
  FUZZ_CHECK(ReplaceFile(storage, uri, WithLengthAndChecksum(message)).ok());
  const auto again = ReadManifest(storage, kFolder);
  FUZZ_CHECK(again.ok() && again->SerializeAsString() == message);
  return 0;
}

}  // namespace muster
