#include "common/documents/parquet_documents.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/documents/chat_documents_for_testing.h"
#include "common/documents/json_lines.h"
#include "common/parquet/parquet_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using ForEach = absl::Status (*)(const std::string&, const JsonDocumentOptions&, TakeDocument);

class ParquetDocumentsTest : public ChatDocumentsTest {
 protected:
  // Returns the documents of a file: "NUMBER:" and the parts, those that are learned in brackets;
  // then the error, without the path.
  static std::vector<std::string> Documents(const std::string& path, ForEach for_each,
                                            const JsonDocumentOptions& options) {
    std::vector<std::string> documents;
    const absl::Status status = for_each(path, options, [&](const Document& document) {
      EXPECT_EQ(document.path, path);
      std::string& text = documents.emplace_back(absl::StrCat(document.line, ":"));
      for (const TextPart& part : document.parts) {
        const bool learned = part.trained == Trained::kYes;
        absl::StrAppend(&text, learned ? "[" : "", part.text, learned ? "]" : "");
      }
      return absl::OkStatus();
    });
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      documents.push_back(absl::StrReplaceAll(status.message(), {{path, "FILE"}}));
    }
    return documents;
  }

  std::vector<std::string> Documents(const std::vector<TextColumnForTesting>& columns) const {
    return Documents(folder_.Write("d.parquet", ParquetOfTexts(columns)), ForEachParquetRow,
                     options_);
  }
};

TEST_F(ParquetDocumentsTest, FilesOfOtherWritersGiveTheDocumentsOfTheirJsonLines) {
  UseTemplate(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
      "{% for call in m.calls or [] %}({{ call.id }}: {{ (call.arguments or []) | tojson }})"
      "{% endfor %}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  int files = 0;
  for (const char* field : {"", "text", "color", "messages", "tags"}) {
    options_.field = field;
    const std::vector<std::string> expected =
        Documents("common/parquet/testdata/rows.jsonl", ForEachJsonLine, options_);
    for (const char* name : {"duckdb_v1_snappy", "duckdb_v2_zstd", "arrow_v1_gzip", "arrow_v2_zstd",
                             "arrow_v2_plain", "arrow_delta"}) {
      std::vector<std::string> documents =
          Documents(absl::StrCat("common/parquet/parquet_rows_corpus/", name, ".parquet"),
                    ForEachParquetRow, options_);
      for (std::string& text : documents)
        text = absl::StrReplaceAll(text, {{"the row", "the line"}});
      // Columns that no document is made of are not read, so an error tells fewer fields.
      if (*field == '\0') {
        EXPECT_THAT(documents, ElementsAre(HasSubstr("several documents: messages, text")));
        EXPECT_THAT(expected, ElementsAre(HasSubstr("several documents: messages, text")));
      } else if (field == std::string("tags")) {
        EXPECT_THAT(documents, ElementsAre(HasSubstr("FILE:1: the line has no field 'tags'")));
        EXPECT_THAT(expected, ElementsAre(HasSubstr("FILE:1: the line has no field 'tags'")));
      } else {
        EXPECT_EQ(documents, expected) << name << " " << field;
        EXPECT_GT(documents.size(), 2u);
      }
      ++files;
    }
  }
  EXPECT_EQ(files, 30);
}

TEST_F(ParquetDocumentsTest, TextsAndPairsAreKnownByTheirColumns) {
  EXPECT_THAT(Documents({{"id", {"1", "2", "3"}}, {"text", {"one", "", "three"}}}),
              ElementsAre("1:[one]", "3:[three]"));
  EXPECT_THAT(Documents({{"completion", {"4", ""}}, {"prompt", {"2+2=", "a"}}}),
              ElementsAre("1:2+2=[4]", HasSubstr("FILE:2: the completion is empty, so there is "
                                                 "nothing to learn; leave such rows out")));
  EXPECT_THAT(Documents({{"text", {"a", std::nullopt}}}),
              ElementsAre("1:[a]", HasSubstr("FILE:2: the row has no text 'text'")));
  EXPECT_THAT(
      Documents({{"a", {"x"}}, {"b", {"x"}}}),
      ElementsAre(AllOf(HasSubstr("FILE has none of the columns that documents are known by"),
                        HasSubstr("--field NAME; its columns: 'a', 'b'"))));
  options_.field = "a";
  EXPECT_THAT(Documents({{"a", {"x"}}, {"text", {"y"}}}), ElementsAre("1:[x]"));
  options_.field = "c";
  EXPECT_THAT(Documents({{"a", {"x"}}, {"text", {"y"}}}),
              ElementsAre("FILE has no column 'c'; its columns: 'a', 'text'"));
}

TEST_F(ParquetDocumentsTest, ColumnsThatAreNotReadMatterOnlyWhereTheyAreAskedFor) {
  const std::string path = "common/parquet/parquet_rows_corpus/refused.parquet";
  options_.field = "text";
  EXPECT_THAT(Documents(path, ForEachParquetRow, options_), SizeIs(4));
  options_.field = "days";
  EXPECT_THAT(Documents(path, ForEachParquetRow, options_),
              ElementsAre(HasSubstr("FILE: column 'days' has dates, which Muster does not read")));
}

TEST_F(ParquetDocumentsTest, ReadingGoesOnBehindAnyRow) {
  options_.field = "color";
  const std::string path = "common/parquet/parquet_rows_corpus/arrow_v1_gzip.parquet";
  // The third row has none.
  EXPECT_THAT(Documents(path, ForEachParquetRow, options_),
              ElementsAre("1:[red]", "2:[green]", HasSubstr("FILE:3: ")));
  options_.skip = 1;
  EXPECT_THAT(Documents(path, ForEachParquetRow, options_),
              ElementsAre("2:[green]", HasSubstr("FILE:3: ")));
  options_.skip = 3;
  EXPECT_THAT(Documents(path, ForEachParquetRow, options_),
              ElementsAre("4:[blue]", "5:[red]", "6:[green]", HasSubstr("FILE:7: ")));
  options_.skip = 11;
  EXPECT_THAT(Documents(path, ForEachParquetRow, options_), ElementsAre("12:[blue]"));
}

TEST_F(ParquetDocumentsTest, ProgressIsTheFiles) {
  uint64_t read = 0;
  options_.progress = [&read](uint64_t bytes) { read += bytes; };
  Documents({{"text", {"a", "b", "c"}}});
  EXPECT_EQ(read, std::filesystem::file_size(folder_.path() + "/d.parquet"));
}

}  // namespace
}  // namespace muster
