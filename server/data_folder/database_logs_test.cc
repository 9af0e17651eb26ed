#include "server/data_folder/database_logs.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/data_folder/open_database.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using End = LogState::End;
namespace fs = std::filesystem;

constexpr size_t kBlockBytes = 32768;

// What RocksDB writes to its log for values of these sizes, one write each, and where each ends.
struct Written {
  std::string bytes;
  std::vector<size_t> ends;
};

Written WriteWith(const std::vector<size_t>& sizes) {
  TempFolder temp;
  rocksdb::Options options;
  options.create_if_missing = true;
  auto db = OpenDatabase(options, temp.path(), "the test's database");
  EXPECT_TRUE(db.ok()) << db.status();
  std::string path;
  for (const auto& entry : fs::directory_iterator(temp.path())) {
    if (entry.path().extension() == ".log") path = entry.path().string();
  }
  rocksdb::WriteOptions synced;
  synced.sync = true;
  Written written;
  uint64_t noise = 7;
  for (const size_t size : sizes) {
    std::string value(size, ' ');
    for (char& c : value) c = static_cast<char>(MixBits(++noise) % 255 + 1);
    EXPECT_TRUE((*db)->Put(synced, absl::StrCat("key", noise), value).ok());
    written.ends.push_back(fs::file_size(path));
  }
  written.bytes = BytesOfFile(path);
  return written;
}

// Records within a block, across the ends of blocks, and over whole ones.
Written Mixed() { return WriteWith({40, 3000, 29000, 2000, 70000, 10, 500, 20000, 4000, 100}); }

// Positions worth a look: around all ends of records and blocks, and some between.
std::vector<size_t> Positions(const Written& written) {
  std::vector<size_t> at;
  for (size_t i = 0; i < written.bytes.size(); ++i) {
    bool near = i % 1009 == 0 || i % kBlockBytes < 9 || i % kBlockBytes > kBlockBytes - 9;
    for (const size_t end : written.ends) near = near || (i + 9 > end && i < end + 9);
    if (near) at.push_back(i);
  }
  return at;
}

TEST(DatabaseLogsTest, KnowsASoundLog) {
  const Written written = Mixed();
  const LogState state = ReadLog(written.bytes);
  EXPECT_EQ(state.end, End::kSound);
  EXPECT_EQ(state.sound_bytes, written.bytes.size());
  EXPECT_EQ(state.next_sequence - state.first_sequence, 10u);
  EXPECT_EQ(ReadLog("").end, End::kSound);
}

TEST(DatabaseLogsTest, ADamagedByteIsNeverTakenForATornEnd) {
  const Written written = Mixed();
  int harmless = 0;
  for (const size_t at : Positions(written)) {
    for (const char flip : {'\x01', '\x40', '\xff'}) {
      std::string damaged = written.bytes;
      damaged[at] ^= flip;
      const LogState state = ReadLog(damaged);
      if (state.end == End::kSound && state.sound_bytes == written.bytes.size()) {
        ++harmless;
        continue;
      }
      EXPECT_EQ(state.end, End::kDamaged) << "byte " << at << " of " << written.bytes.size();
      EXPECT_LE(state.sound_bytes, at);
    }
  }
  // At most what fills up blocks that had no room for a header.
  EXPECT_LE(harmless, 3 * 6 * 4);
}

TEST(DatabaseLogsTest, AShortFileIsTorn) {
  const Written written = Mixed();
  for (const size_t size : Positions(written)) {
    const LogState state = ReadLog(absl::string_view(written.bytes).substr(0, size));
    size_t whole = 0;
    for (const size_t end : written.ends) whole = end <= size ? end : whole;
    EXPECT_NE(state.end, End::kDamaged) << size;
    EXPECT_EQ(state.sound_bytes, whole) << size;
  }
}

TEST(DatabaseLogsTest, LostLastSectorsAreTorn) {
  const Written written = Mixed();
  // Within the last write.
  const Written large = WriteWith({40, 20000});
  for (size_t at = 512; at < large.bytes.size(); at += 512) {
    std::string torn = large.bytes;
    torn.replace(at, std::string::npos, large.bytes.size() - at, '\0');
    const LogState state = ReadLog(torn);
    EXPECT_EQ(state.end, End::kTorn) << at;
    EXPECT_EQ(state.sound_bytes, large.ends[0]);
  }
  // A sector in the middle is not the end.
  std::string damaged = written.bytes;
  damaged.replace(1024, 512, 512, '\0');
  EXPECT_EQ(ReadLog(damaged).end, End::kDamaged);
}

class DatabaseLogsInFolderTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) { return absl::StrCat(temp_.path(), "/", name); }
  std::string Part(size_t from, size_t to) { return written_.bytes.substr(from, to - from); }

  TempFolder temp_;
  const Written written_ = WriteWith({10, 20, 30, 40});
};

TEST_F(DatabaseLogsInFolderTest, ALaterLogGoesOnWhereATornOneEnds) {
  const size_t half = written_.ends[1];
  // What was never acknowledged, and not recovered either.
  temp_.Write("000004.log", Part(0, half) + Part(0, 20));
  temp_.Write("000012.log", Part(half, written_.bytes.size()));
  ASSERT_TRUE(CheckDatabaseLogs(temp_.path()).ok()) << CheckDatabaseLogs(temp_.path());
  EXPECT_EQ(BytesOfFile(Path("000004.log")), Part(0, half));
  EXPECT_EQ(BytesOfFile(Path("000012.log")), Part(half, written_.bytes.size()));
}

TEST_F(DatabaseLogsInFolderTest, ALaterLogThatGoesOnElsewhereIsDamage) {
  const size_t half = written_.ends[1];
  temp_.Write("000004.log", Part(0, half - 5));
  temp_.Write("000012.log", Part(half, written_.bytes.size()));
  const absl::Status status = CheckDatabaseLogs(temp_.path());
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("000004.log")));
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("byte ", written_.ends[0])));
  EXPECT_EQ(BytesOfFile(Path("000004.log")), Part(0, half - 5)) << "left as it is";
}

TEST_F(DatabaseLogsInFolderTest, ADamagedListOfFilesIsRefused) {
  std::string damaged = written_.bytes;
  // A length.
  damaged[4] ^= 0x40;
  temp_.Write("MANIFEST-000003", damaged);
  const absl::Status status = CheckDatabaseLogs(temp_.path());
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("MANIFEST-000003")));
}

}  // namespace
}  // namespace muster
