#include "common/transport/tls/tls_record_key.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/byte_text.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

std::string Secret(char byte) { return std::string(32, byte); }

std::string Sealed(TlsRecordKey& key, TlsContent content, absl::string_view text) {
  std::string record(text.size() + kTlsOverheadBytes, '?');
  EXPECT_EQ(key.Seal(content, AsBytes(text), reinterpret_cast<std::byte*>(record.data())),
            record.size());
  return record;
}

// "23: text", or the error.
std::string Opened(TlsRecordKey& key, absl::string_view record) {
  std::string text(std::max(record.size(), kTlsOverheadBytes) - kTlsOverheadBytes, '?');
  const auto opened = key.Open(AsBytes(record), reinterpret_cast<std::byte*>(text.data()));
  if (!opened.ok()) return std::string(absl::StatusCodeToString(opened.status().code()));
  return absl::StrCat(opened->content, ": ", text.substr(0, opened->bytes));
}

// RFC 8448, section 3: the client's secret and the record of its application data.
TEST(TlsRecordKeyTest, MakesTheRecordOfTheStandardsTrace) {
  const std::string secret =
      absl::HexStringToBytes("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");
  const std::string record = absl::HexStringToBytes(
      "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a2044"
      "1e"
      "2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4");
  std::string text;
  for (char c = 0; c < 50; ++c) text.push_back(c);
  TlsRecordKey sealing(secret), opening(secret);
  EXPECT_EQ(absl::BytesToHexString(Sealed(sealing, TlsContent::kApplicationData, text)),
            absl::BytesToHexString(record));
  EXPECT_EQ(Opened(opening, record), absl::StrCat("23: ", text));
}

TEST(TlsRecordKeyTest, WhatIsSealedOpensInOrder) {
  TlsRecordKey sealing(Secret('a')), opening(Secret('a'));
  for (const size_t size : {0, 1, 15, 16, 17, 1000, 16383, 16384}) {
    const std::string text(size, static_cast<char>('a' + size % 26));
    EXPECT_EQ(Opened(opening, Sealed(sealing, TlsContent::kApplicationData, text)),
              absl::StrCat("23: ", text));
  }
  EXPECT_EQ(Opened(opening, Sealed(sealing, TlsContent::kAlert, "x")), "21: x");
  EXPECT_EQ(sealing.records(), 9u);
  EXPECT_EQ(opening.records(), 9u);
}

TEST(TlsRecordKeyTest, EachRecordHasItsOwnNonce) {
  TlsRecordKey key(Secret('a'));
  EXPECT_NE(Sealed(key, TlsContent::kApplicationData, "the same"),
            Sealed(key, TlsContent::kApplicationData, "the same"));
}

TEST(TlsRecordKeyTest, OrderAndKeyAreProtected) {
  TlsRecordKey sealing(Secret('a'));
  const std::string first = Sealed(sealing, TlsContent::kApplicationData, "first");
  const std::string second = Sealed(sealing, TlsContent::kApplicationData, "second");
  TlsRecordKey skipping(Secret('a'));
  EXPECT_EQ(Opened(skipping, second), "UNAUTHENTICATED");
  TlsRecordKey repeating(Secret('a'));
  EXPECT_EQ(Opened(repeating, first), "23: first");
  EXPECT_EQ(Opened(repeating, first), "UNAUTHENTICATED");
  TlsRecordKey other(Secret('b'));
  EXPECT_EQ(Opened(other, first), "UNAUTHENTICATED");
}

TEST(TlsRecordKeyTest, EveryBitIsProtected) {
  TlsRecordKey sealing(Secret('a'));
  const std::string record = Sealed(sealing, TlsContent::kApplicationData, "to whom it concerns");
  for (size_t bit = 0; bit < 8 * record.size(); ++bit) {
    std::string changed = record;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    TlsRecordKey opening(Secret('a'));
    EXPECT_EQ(Opened(opening, changed), "UNAUTHENTICATED") << "bit " << bit;
  }
  for (size_t length = 0; length < record.size(); ++length) {
    TlsRecordKey opening(Secret('a'));
    EXPECT_EQ(Opened(opening, record.substr(0, length)), "UNAUTHENTICATED") << length;
  }
}

TEST(TlsRecordKeyTest, PaddingIsTakenOff) {
  // With content of type 0, the type is looked for before it: "words" of type 23 and 3 zeros.
  TlsRecordKey sealing(Secret('a')), opening(Secret('a'));
  std::string padded = "words";
  padded += {23, 0, 0};
  EXPECT_EQ(Opened(opening, Sealed(sealing, TlsContent{0}, padded)), "23: words");
  EXPECT_EQ(Opened(opening, Sealed(sealing, TlsContent{0}, std::string(5, '\0'))),
            "UNAUTHENTICATED");
}

TEST(TlsRecordKeyTest, BothSidesAdvanceToTheSameKey) {
  TlsRecordKey sealing(Secret('a')), opening(Secret('a')), behind(Secret('a'));
  sealing.Advance();
  opening.Advance();
  EXPECT_EQ(sealing.records(), 0u);
  const std::string record = Sealed(sealing, TlsContent::kApplicationData, "later");
  EXPECT_EQ(Opened(opening, record), "23: later");
  EXPECT_EQ(Opened(behind, record), "UNAUTHENTICATED");
}

}  // namespace
}  // namespace muster
