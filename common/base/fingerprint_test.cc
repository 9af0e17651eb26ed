#include "common/base/fingerprint.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/message_fingerprint.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

TEST(FingerprintTest, StreamEqualsWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7);
  FingerprintStream stream;
  size_t at = 0;
  for (size_t piece = 1; at < text.size(); piece = piece * 3 + 1) {
    const size_t n = std::min(piece, text.size() - at);
    stream.Add(text.data() + at, n);
    at += n;
  }
  EXPECT_EQ(stream.Finish(), Fingerprint(text));
}

TEST(FingerprintTest, IsStable) {
  // The published XXH3 value of the empty input: stored records depend on it.
  EXPECT_EQ(Fingerprint(""), 0x2D06800538D394C2u);
  EXPECT_NE(Fingerprint("a"), Fingerprint("a", 1));
}

TEST(FingerprintTest, EqualMessagesHaveEqualOnes) {
  v1::JobSpec ascending, descending;
  for (int i = 0; i < 30; ++i) {
    (*ascending.mutable_labels())[absl::StrCat("label", i)] = absl::StrCat(i);
    (*descending.mutable_labels())[absl::StrCat("label", 29 - i)] = absl::StrCat(29 - i);
  }
  EXPECT_EQ(FingerprintOf(ascending), FingerprintOf(descending));
  (*descending.mutable_labels())["label7"] = "8";
  EXPECT_NE(FingerprintOf(ascending), FingerprintOf(descending));
  ascending.clear_labels();
  EXPECT_EQ(FingerprintOf(ascending), Fingerprint("")) << "without maps it is that of the bytes";
}

TEST(Crc32cTest, GivesThePublishedValues) {
  // The vectors of RFC 3720, section B.4, and the usual check value.
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(MaskedCrc32c(std::string(32, '\0')),
            ((0x8A9136AAu >> 15) | (0x8A9136AAu << 17)) + 0xA282EAD8u);
}

TEST(FingerprintTest, MixBitsSpreadsNeighbours) {
  std::set<uint64_t> high;
  for (uint64_t key = 0; key < 64; ++key) high.insert(MixBits(key) >> 58);
  EXPECT_GT(high.size(), 30u);
}

}  // namespace
}  // namespace muster
