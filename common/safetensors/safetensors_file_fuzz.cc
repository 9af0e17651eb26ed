#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/fuzz/memory_file.h"
#include "common/safetensors/safetensors_file.h"

namespace muster {
namespace {

// Puts its length in front of the header, which is the first line.
std::string WithLength(FuzzInput input) {
  const absl::string_view header = input.Until('\n');
  const uint64_t length = header.size();
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&length), sizeof(length)),
                      header, input.rest());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile* const file = new MemoryFile();
  const FuzzInput input(data, size);
  file->Write(absl::StartsWith(input.rest(), "{") ? WithLength(input) : std::string(input.rest()));
  const auto opened = SafetensorsFile::Open(file->path());
  if (!opened.ok()) {
    FUZZ_CHECK(opened.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(absl::StrContains(opened.status().message(), file->path()));
    // Names, types and shapes of tensors are quoted.
    FUZZ_CHECK(opened.status().message().size() < 1000 + 4 * size);
    return 0;
  }
  for (const auto& [name, tensor] : (*opened)->tensors()) {
    FUZZ_CHECK(tensor.bytes.size() <= size);
    FUZZ_CHECK(tensor.elements() >= 0);
    FUZZ_CHECK(static_cast<uint64_t>(tensor.elements()) <= tensor.bytes.size());
    std::vector<float> values(tensor.elements());
    ReadAsFloats(tensor, name, 0, absl::MakeSpan(values)).IgnoreError();
  }
  return 0;
}

}  // namespace muster
