#include "common/packing/whole_documents.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using Piece = WholeDocuments::Piece;

std::vector<uint64_t> EndsOf(const std::vector<uint64_t>& lengths) {
  std::vector<uint64_t> ends;
  for (const uint64_t length : lengths) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + length);
  }
  return ends;
}

std::vector<Piece> PiecesOf(const WholeDocuments& windows, int64_t window) {
  std::vector<Piece> pieces;
  windows.PiecesOf(window, pieces);
  return pieces;
}

TEST(WholeDocumentsTest, PutsPiecesWhereTheyLeaveTheLeastRoom) {
  const std::vector<uint64_t> ends = EndsOf({8, 3, 2, 4});
  const auto windows = *WholeDocuments::Create(ends, 4);
  ASSERT_EQ(windows->windows(), 4);
  EXPECT_THAT(PiecesOf(*windows, 0), ElementsAre(FieldsAre(0, 4)));
  EXPECT_THAT(PiecesOf(*windows, 1), ElementsAre(FieldsAre(4, 3), FieldsAre(11, 1)));
  EXPECT_THAT(PiecesOf(*windows, 2), ElementsAre(FieldsAre(8, 2)));
  EXPECT_THAT(PiecesOf(*windows, 3), ElementsAre(FieldsAre(13, 3)));
  EXPECT_EQ(windows->figures().padding, 3u);
  EXPECT_EQ(windows->figures().squares, 16 + 9 + 1 + 4 + 9 + 3);
}

TEST(WholeDocumentsTest, DocumentsOfOneTokenTeachNothing) {
  const std::vector<uint64_t> ends = EndsOf({1, 1});
  EXPECT_EQ((*WholeDocuments::Create(ends, 4))->windows(), 0);
  EXPECT_EQ((*WholeDocuments::Create({}, 4))->windows(), 0);
}

TEST(WholeDocumentsTest, RefusesWhatItCannotCount) {
  const std::vector<uint64_t> ends = {uint64_t{1} << 40};
  EXPECT_EQ(WholeDocuments::Create(ends, 4).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(WholeDocuments::Create(ends, 1 << 20).ok());
}

// Checks that each label of the data is in one window, and that only documents longer than a window
// are cut, at its multiples.
void ExpectEveryLabelOnce(const std::vector<uint64_t>& ends, int64_t context) {
  const auto windows = *WholeDocuments::Create(ends, context);
  std::vector<int> seen(ends.empty() ? 0 : ends.back(), 0);
  std::vector<Piece> pieces;
  uint64_t padding = 0;
  double squares = 0;
  uint64_t first_before = 0;
  for (int64_t window = 0; window < windows->windows(); ++window) {
    windows->PiecesOf(window, pieces);
    int64_t places = 0;
    ASSERT_FALSE(pieces.empty());
    EXPECT_LE(first_before, pieces[0].first);
    first_before = pieces[0].first;
    std::set<size_t> documents;
    for (const Piece& piece : pieces) {
      ASSERT_GE(piece.count, 1);
      const size_t document =
          std::upper_bound(ends.begin(), ends.end(), piece.first) - ends.begin();
      const uint64_t begin = document == 0 ? 0 : ends[document - 1];
      EXPECT_TRUE(documents.insert(document).second);
      EXPECT_EQ((piece.first - begin) % context, 0u);
      const uint64_t end = piece.first + piece.count;
      ASSERT_LT(end, ends[document]);
      EXPECT_TRUE(piece.count == context || end == ends[document] - 1);
      for (uint64_t token = piece.first; token < end; ++token) ++seen[token];
      places += piece.count;
      squares += static_cast<double>(piece.count * piece.count);
    }
    ASSERT_LE(places, context);
    padding += context - places;
  }
  size_t document = 0;
  for (uint64_t token = 0; token < seen.size(); ++token) {
    const bool last = token + 1 == ends[document];
    EXPECT_EQ(seen[token], last ? 0 : 1) << token;
    if (last) ++document;
  }
  EXPECT_EQ(windows->figures().windows, static_cast<uint64_t>(windows->windows()));
  EXPECT_EQ(windows->figures().padding, padding);
  EXPECT_DOUBLE_EQ(windows->figures().squares, squares + static_cast<double>(padding));
}

TEST(WholeDocumentsTest, EveryLabelIsInOneWindow) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const auto context = static_cast<int64_t>(1 + random() % 40);
    std::vector<uint64_t> lengths(random() % 60);
    const uint64_t longest = 1 + random() % 100;
    for (uint64_t& length : lengths) length = 1 + random() % longest;
    ExpectEveryLabelOnce(EndsOf(lengths), context);
  }
}

TEST(WholeDocumentsTest, BlocksFollowOneAnother) {
  std::mt19937 random(3);
  std::vector<uint64_t> lengths(WholeDocuments::kBlock + 1000);
  for (uint64_t& length : lengths) length = 1 + random() % 30;
  const std::vector<uint64_t> ends = EndsOf(lengths);
  ExpectEveryLabelOnce(ends, 64);
  const auto windows = *WholeDocuments::Create(ends, 64);
  EXPECT_LT(windows->figures().PaddingShare(64), 0.001);
  EXPECT_LE(windows->bytes(), 4 * (ends.size() + windows->windows() + 1));
  EXPECT_LE(windows->bytes(), WholeDocuments::BytesAtMost(ends.size(), ends.back(), 64));
  // No window has documents of two blocks.
  const uint64_t border = ends[WholeDocuments::kBlock - 1];
  for (int64_t window = 0; window < windows->windows(); ++window) {
    const std::vector<Piece> pieces = PiecesOf(*windows, window);
    EXPECT_EQ(pieces.front().first < border, pieces.back().first < border) << window;
  }
}

}  // namespace
}  // namespace muster
