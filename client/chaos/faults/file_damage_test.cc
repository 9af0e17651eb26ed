#include "client/chaos/faults/file_damage.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "common/files/bytes_of_file.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

class FileDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/damage";
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/sub");
    Write("a", std::string(100, 'a'));
    // Written in its first half only.
    Write("sub/b", std::string(50, 'b') + std::string(50, '\0'));
    Write("empty", "");
    Write("zeros", std::string(5000, '\0'));
  }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  std::string Read(const std::string& name) { return BytesOfFile(folder_ + "/" + name); }

  std::string folder_;
};

TEST_F(FileDamageTest, DoesWhatItSaysAndOnlyThat) {
  std::set<std::string> hit;
  std::set<FileDamage::Kind> kinds;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SetUp();
    const std::string a = Read("a"), b = Read("sub/b");
    const auto damage = DamageOneFile(folder_, seed);
    ASSERT_TRUE(damage.ok()) << damage.status();
    hit.insert(damage->file);
    kinds.insert(damage->kind);
    ASSERT_TRUE(damage->file == "a" || damage->file == "sub/b") << damage->file;
    const std::string before = damage->file == "a" ? a : b;
    const std::string after = Read(damage->file);
    EXPECT_EQ(Read(damage->file == "a" ? "sub/b" : "a"), damage->file == "a" ? b : a);
    ASSERT_LT(damage->offset, damage->file == "a" ? 100u : 50u);
    if (damage->kind == FileDamage::Kind::kTruncated) {
      EXPECT_EQ(after, before.substr(0, damage->offset));
      continue;
    }
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < after.size(); ++i) {
      const int changed = (after[i] ^ before[i]) & 0xff;
      EXPECT_EQ(__builtin_popcount(changed), i == damage->offset ? 1 : 0) << i;
    }
  }
  EXPECT_EQ(hit.size(), 2u);
  EXPECT_EQ(kinds.size(), 2u);
}

TEST_F(FileDamageTest, NothingToDamage) {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  EXPECT_TRUE(absl::IsNotFound(DamageOneFile(folder_, 1).status()));
}

TEST_F(FileDamageTest, ACopyIsTheSameAndReplacesWhatWasThere) {
  const std::string copy = ::testing::TempDir() + "/copy";
  fs::create_directories(copy + "/old");
  ASSERT_TRUE(CopyFolder(folder_, copy).ok());
  EXPECT_FALSE(fs::exists(copy + "/old"));
  for (const char* name : {"a", "sub/b", "empty", "zeros"}) {
    EXPECT_EQ(BytesOfFile(copy + "/" + name), Read(name)) << name;
  }
}

}  // namespace
}  // namespace muster
