#include <cstddef>
#include <cstdint>

#include "common/fuzz/fuzz_input.h"
#include "common/fuzz/memory_file.h"
#include "worker/data/check_dataset_for_testing.h"
#include "worker/data/datasets/idx_dataset.h"

namespace muster {
namespace {

constexpr absl::string_view kImages(
    "\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0\x02"
    "abcdefghijkl",
    28);
constexpr absl::string_view kLabels("\0\0\x08\x01\0\0\0\x03\0\x01\x02", 11);

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile* const images = new MemoryFile();
  static const MemoryFile* const labels = new MemoryFile();
  FuzzInput input(data, size);
  const bool is_images = input.Choice(2) == 0;
  images->Write(is_images ? input.rest() : kImages);
  labels->Write(is_images ? kLabels : input.rest());
  CheckDataset(IdxDataset::Create(images->path(), labels->path()), "/proc/self/fd/");
  return 0;
}

}  // namespace muster
