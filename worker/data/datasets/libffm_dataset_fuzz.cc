#include <cstddef>
#include <cstdint>

#include "common/fuzz/fuzz_input.h"
#include "common/fuzz/memory_file.h"
#include "worker/data/check_dataset_for_testing.h"
#include "worker/data/datasets/libffm_dataset.h"

namespace muster {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile* const file = new MemoryFile();
  FuzzInput input(data, size);
  LibffmOptions options;
  if (input.Choice(2) == 1) options.features = FeatureForm::kOnePerField;
  file->Write(input.rest());
  CheckDataset(LibffmDataset::Create(file->path(), options), file->path());
  return 0;
}

}  // namespace muster
