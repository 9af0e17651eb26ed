#include "worker/data/temp_files_for_testing.h"

#include <stdlib.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {

TempFolder::TempFolder() : path_(absl::StrCat(testing::TempDir(), "/muster-data-XXXXXX")) {
  if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "No folder could be made at " << path_;
}

TempFolder::~TempFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TempFolder::Write(absl::string_view name, absl::string_view content) const {
  const std::string path = absl::StrCat(path_, "/", name);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) ADD_FAILURE() << "Writing " << path << " failed";
  return path;
}

std::string Gzip(absl::string_view bytes) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    ADD_FAILURE() << "zlib could not allocate its state";
    return "";
  }
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string IdxFile(const std::vector<uint32_t>& dimensions, absl::string_view elements) {
  std::string file = {0, 0, 8, static_cast<char>(dimensions.size())};
  for (const uint32_t dimension : dimensions) {
    for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<char>(dimension >> shift));
  }
  return absl::StrCat(file, elements);
}

}  // namespace muster
