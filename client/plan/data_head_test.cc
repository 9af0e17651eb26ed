#include "client/plan/data_head.h"

#include <zlib.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Write(const std::string& name, const std::string& content) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(DataHeadTest, KnowsATextsBytes) {
  v1::DataSpec data;
  data.mutable_text()->set_path(Write("text", std::string(1000, 'a')));
  EXPECT_EQ(ReadDataHead(data).bytes, 1000u);
  EXPECT_EQ(ReadDataHead(data).vocabulary, 256u);
  EXPECT_THAT(ReadDataHead(data).assumptions, IsEmpty());
}

TEST(DataHeadTest, KnowsSequencesOfBytes) {
  v1::DataSpec data;
  data.mutable_sequences()->set_path(Write("sequences", std::string(500, 'b')));
  EXPECT_EQ(ReadDataHead(data).vocabulary, 256u);
  EXPECT_EQ(ReadDataHead(data).bytes, 500u);
  data.mutable_sequences()->set_tokenizer("/no/such/tokenizer.json");
  EXPECT_EQ(ReadDataHead(data).vocabulary, 50257u);
  EXPECT_THAT(ReadDataHead(data).assumptions,
              ElementsAre(HasSubstr("50,257"), HasSubstr("cannot be read")));
}

TEST(DataHeadTest, ReadsAnImageFilesHeaderPackedOrNot) {
  const std::string head("\0\0\x08\x03\0\0\x01\x02\0\0\0\x05\0\0\0\x07", 16);
  v1::DataSpec data;
  data.mutable_idx()->set_images(Write("images", head));
  DataSize size = ReadDataHead(data);
  EXPECT_EQ(size.examples, 258u);
  EXPECT_EQ(size.dense_features, 35u);
  EXPECT_EQ(size.bytes, 258u * 36);

  const std::string packed = ::testing::TempDir() + "/images.gz";
  gzFile file = gzopen(packed.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, head.data(), head.size()), 16);
  gzclose(file);
  data.mutable_idx()->set_images(packed);
  EXPECT_EQ(ReadDataHead(data).dense_features, 35u);
}

TEST(DataHeadTest, CountsLinesByTheFirstOnes) {
  std::string csv = "label,x,c\n";
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&csv, i % 2, ",1,abc\n");
  v1::DataSpec data;
  data.mutable_csv()->set_path(Write("csv", csv));
  data.mutable_csv()->add_numeric("x");
  data.mutable_csv()->add_categorical("c");
  DataSize size = ReadDataHead(data);
  EXPECT_NEAR(size.examples, 20000, 20);
  EXPECT_EQ(size.bytes, size.examples * 16);

  std::string libsvm;
  for (int i = 0; i < 20000; ++i) libsvm += "1 3:1 7:2\n";
  data.mutable_libsvm()->set_path(Write("libsvm", libsvm));
  size = ReadDataHead(data);
  EXPECT_NEAR(size.examples, 20000, 1);
  EXPECT_EQ(size.keys, 3u);
  EXPECT_NEAR(size.bytes, 20000 * 36, 100);
}

TEST(DataHeadTest, SaysWhatIsNotHere) {
  v1::DataSpec data;
  data.mutable_idx()->set_images("/no/such/images");
  EXPECT_EQ(ReadDataHead(data).dense_features, 784u);
  EXPECT_THAT(ReadDataHead(data).assumptions,
              ElementsAre(HasSubstr("784"), HasSubstr("/no/such/images cannot be read")));
}

}  // namespace
}  // namespace muster
