#include "worker/data/parsing/temp_files_for_testing.h"

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {

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
