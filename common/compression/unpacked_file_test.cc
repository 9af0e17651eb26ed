#include "common/compression/unpacked_file.h"

#include <cstdint>
#include <string>

#include "common/compression/packed_for_testing.h"
#include "common/compression/zstd.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Long enough for several buffers, and not all alike.
std::string LongSample() {
  std::string bytes;
  for (uint32_t i = 0; i < 2'000'000; ++i) bytes += static_cast<char>((i * i) >> 7);
  return bytes;
}

// Reads a file in parts of this size.
absl::StatusOr<std::string> ReadAll(const std::string& path, size_t part = 70'000) {
  auto file = UnpackedFile::Open(path);
  if (!file.ok()) return file.status();
  std::string all;
  std::string bytes(part, '\0');
  size_t got = part;
  while (got == part) {
    const auto read = (*file)->Read(absl::MakeSpan(bytes));
    if (!read.ok()) return read.status();
    got = *read;
    all.append(bytes, 0, got);
  }
  EXPECT_EQ((*file)->bytes_read(), (*file)->size());
  return all;
}

class UnpackedFileTest : public testing::Test {
 protected:
  std::string Put(const std::string& bytes) const { return folder_.Write("file", bytes); }

  const TempFolder folder_;
};

TEST_F(UnpackedFileTest, IsReadWhateverPacksIt) {
  const std::string sample = LongSample();
  for (const std::string& bytes : {std::string(), std::string("short"), sample}) {
    EXPECT_TRUE(ReadAll(Put(bytes)).value() == bytes);
    EXPECT_TRUE(ReadAll(Put(Gzip(bytes))).value() == bytes);
    EXPECT_TRUE(ReadAll(Put(Zstd(bytes))).value() == bytes);
  }
  EXPECT_TRUE(ReadAll(Put(Gzip(sample) + Gzip("more"))).value() == sample + "more");
  EXPECT_TRUE(ReadAll(Put(Zstd(sample) + Zstd("") + Zstd("more")), 7).value() == sample + "more");
  EXPECT_FALSE((*UnpackedFile::Open(Put("plain")))->packed());
  EXPECT_TRUE((*UnpackedFile::Open(Put(Zstd("x"))))->packed());
  // A frame that is skipped, with nothing in it, may come first.
  EXPECT_EQ(ReadAll(Put(std::string("\x53\x2a\x4d\x18\0\0\0\0", 8) + Zstd("x"))).value(), "x");
}

TEST_F(UnpackedFileTest, FilesThatEndEarlyAreNamed) {
  for (const std::string& packed : {Gzip(LongSample()), Zstd(LongSample())}) {
    for (const size_t size : {size_t{4}, size_t{9}, size_t{1000}, packed.size() - 1}) {
      const auto read = ReadAll(Put(packed.substr(0, size)));
      EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << size;
      EXPECT_THAT(std::string(read.status().message()), HasSubstr("file is a compressed file"));
    }
  }
}

TEST_F(UnpackedFileTest, DamageIsNamed) {
  std::string packed = Zstd(LongSample());
  packed[packed.size() / 2] ^= 0x40;
  packed[packed.size() / 2 + 1] ^= 0x40;
  const auto read = ReadAll(Put(packed + "no frame"));
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("stream is damaged at byte"));
  EXPECT_THAT(std::string(ReadAll(Put(Zstd("x") + "no frame")).status().message()),
              HasSubstr("damaged at byte"));
  EXPECT_EQ(ReadAll(folder_.path() + "/none").status().code(), absl::StatusCode::kNotFound);
}

// The header of a frame whose window has 2 GiB.
TEST_F(UnpackedFileTest, WindowsLargerThanMemoryAreRefused) {
  const std::string hostile("\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 9);
  ASSERT_TRUE(IsZstd(hostile));
  const auto read = ReadAll(Put(hostile));
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("too much memory"));
}

}  // namespace
}  // namespace muster
