#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/fuzz/memory_file.h"
#include "google/protobuf/stubs/logging.h"
#include "worker/data/check_dataset_for_testing.h"
#include "worker/data/csv/csv_dataset.h"

namespace muster {
namespace {

CsvColumns WithHeader() { return {.label = "y", .numeric = {"n"}, .categorical = {"c"}}; }

CsvColumns WithoutHeader() {
  return {.label = "1",
          .numeric = {"2", "3"},
          .categorical = {"4"},
          .separator = ';',
          .header = CsvColumns::Header::kNone};
}

CsvColumns WithTarget() {
  CsvColumns columns = WithHeader();
  columns.label_kind = LabelKind::kNumber;
  return columns;
}

// Opens a sound file with a preparation that came with weights from anybody.
void CheckWithPreparation(absl::string_view bytes) {
  static const MemoryFile* const sound = [] {
    auto* const file = new MemoryFile();
    file->Write("one;1.5;-2e3;red\ntwo;;7;blue\none;3;;green\n");
    return file;
  }();
  v1::CsvPreparation preparation;
  if (!preparation.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  auto dataset = CsvDataset::Create(sound->path(), WithoutHeader(), {.preparation = &preparation});
  if (dataset.ok()) {
    CheckDataset(*std::move(dataset), sound->path());
  } else {
    FUZZ_CHECK(dataset.status().code() == absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const google::protobuf::LogSilencer silencer;
  static const MemoryFile* const file = new MemoryFile();
  static const MemoryFile* const other = new MemoryFile();
  FuzzInput input(data, size);
  const unsigned way = input.Choice(6);
  if (way == 5) {
    file->Write(input.rest());
    CheckDataset(CsvDataset::Create(file->path(), WithTarget()), file->path());
    return 0;
  }
  if (way == 4) {
    CheckWithPreparation(input.rest());
    return 0;
  }
  file->Write(input.rest());
  switch (way) {
    case 0:
      CheckDataset(CsvDataset::Create(file->path(), WithHeader()), file->path());
      break;
    case 1:
      CheckDataset(CsvDataset::Create(file->path(), WithoutHeader()), file->path());
      break;
    case 2:
      // Not kept in memory, but read when it is needed.
      CheckDataset(CsvDataset::Create(file->path(), WithHeader(), {.keep_below_bytes = 1}),
                   file->path());
      break;
    default:
      // A sound file beside it.
      other->Write("y,n,c\n0,1,red\n1,2,\n");
      CheckDataset(CsvDataset::Create(absl::StrCat("{", other->path(), ",", file->path(), "}"),
                                      WithHeader()),
                   "/proc/self/fd/");
      break;
  }
  return 0;
}

}  // namespace muster
