#include "common/files/text_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/check_is_text.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<std::string>> Contents(const std::string& path) {
  std::vector<std::string> contents;
  const absl::Status status = ForEachTextFile(path, [&](const std::string& from, FileContent file) {
    EXPECT_EQ(FileContent::Open(from).value().bytes(), file.bytes());
    contents.emplace_back(file.bytes());
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return contents;
}

TEST(TextFilesTest, AFileStandsForItself) {
  const TempFolder folder;
  EXPECT_THAT(Contents(folder.Write("one", "text")).value(), ElementsAre("text"));
}

TEST(TextFilesTest, AFolderIsItsFilesInNameOrderEachContentOnce) {
  const TempFolder folder;
  folder.Write("b", "second");
  folder.Write("a", "first");
  folder.Write("c", "first");
  folder.Write("d", "");
  std::filesystem::create_directory(folder.path() + "/sub");
  folder.Write("sub/e", "not searched");
  EXPECT_THAT(Contents(folder.path()).value(), ElementsAre("first", "second"));
}

TEST(TextFilesTest, AFileIsOpenedWhenThoseBeforeItWereTaken) {
  const TempFolder folder;
  folder.Write("a", "first");
  folder.Write("b", "as it was");
  std::vector<std::string> contents;
  EXPECT_EQ(ForEachTextFile(folder.path(),
                            [&](const std::string&, FileContent file) {
                              contents.emplace_back(file.bytes());
                              folder.Write("b", "as it is now");
                              return absl::OkStatus();
                            }),
            absl::OkStatus());
  EXPECT_THAT(contents, ElementsAre("first", "as it is now"));
}

TEST(TextFilesTest, HiddenFilesAndBackupsAreLeftOutAndTold) {
  const TempFolder folder;
  folder.Write("a.txt", "first");
  EXPECT_EQ(TellHiddenFiles(folder.path()), "");
  folder.Write("a.txt~", "as it was");
  EXPECT_EQ(TellHiddenFiles(folder.path()),
            "folder '" + folder.path() + "': left out 1 hidden file: a.txt~");
  folder.Write("b.swp", "as it was, too");
  folder.Write(".DS_Store", std::string("\0\0\0\1Bud1", 8));
  std::filesystem::create_directory(folder.path() + "/.git");
  // Emacs locks a file by such a link.
  std::filesystem::create_symlink("somebody@somewhere:1", folder.path() + "/.#a.txt");
  folder.Write("c.swap", "second");
  EXPECT_THAT(Contents(folder.path()).value(), ElementsAre("first", "second"));
  EXPECT_EQ(
      TellHiddenFiles(folder.path()),
      "folder '" + folder.path() + "': left out 4 hidden files: .#a.txt, .DS_Store, a.txt~, b.swp");
  for (const std::string name : {"c~", "d~", "e~"}) folder.Write(name, name);
  EXPECT_THAT(
      TellHiddenFiles(folder.path()),
      HasSubstr("left out 7 hidden files: .#a.txt, .DS_Store, a.txt~, b.swp, c~ and 2 more"));

  // By its own name, it is read.
  EXPECT_THAT(Contents(folder.path() + "/a.txt~").value(), ElementsAre("as it was"));
  EXPECT_EQ(TellHiddenFiles(folder.path() + "/a.txt~"), "");
  EXPECT_EQ(TellHiddenFiles(folder.path() + "/none"), "");
}

TEST(TextFilesTest, AFolderOfHiddenFilesAloneHasNoText) {
  const TempFolder folder;
  folder.Write(".a", "text");
  EXPECT_THAT(std::string(Contents(folder.path()).status().message()),
              HasSubstr("hidden files and subfolders are left out"));
}

TEST(TextFilesTest, WhatIsNoTextIsRefusedByName) {
  using std::literals::operator""s;
  const std::string rest(100, 'x');
  const struct {
    std::string begin;
    std::string what;
    std::string remedy;
  } cases[] = {
      {"\x1f\x8b\x08\0"s, "is compressed by gzip", "gunzip < FILE > TEXT"},
      {"\x28\xb5\x2f\xfd"s, "is compressed by zstd", "unzstd < FILE > TEXT"},
      {"\xfd\x37\x7a\x58\x5a\0"s, "is compressed by xz", "unxz < FILE > TEXT"},
      {"BZh91AY&SY"s, "is compressed by bzip2", "bunzip2 < FILE > TEXT"},
      {"BZh1\x17\x72\x45\x38\x50\x90"s, "is compressed by bzip2", "bunzip2 < FILE > TEXT"},
      {"PK\x03\x04\x14\0"s, "zip archive or an office document (.docx", "unzip FILE"},
      {"%PDF-1.7\n"s, "is a PDF document", "pdftotext FILE TEXT"},
      {"\x89PNG\r\n\x1a\n"s, "is a PNG image", "name the text"},
      {"\xff\xd8\xff\xe0"s, "is a JPEG image", "name the text"},
      {"\x7f\x45\x4c\x46\x02"s, "is a program", "name the text"},
      {"\x10\0\0\0\0\0\0\0{\"a\":"s, "weights of a model (safetensors)", "name the text"},
      {"MUSTERTK\1\0\0\0"s, "is a token file", "name it by itself"},
      {"\xff\xfeh\0i\0"s, "is text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
      {"\xfe\xff\0h\0i"s, "is text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
      {"\xff\xfe\0\0h\0\0\0"s, "is text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE > TEXT"},
      {"\0\0\xfe\xff\0\0\0h"s, "is text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE > TEXT"},
      {"stray\0"s, "seems to be binary: there is a NUL byte", "tr -d '\\000' < FILE > TEXT"},
      {std::string(8091, 'x') + '\0', "seems to be binary", "name the text"},
  };
  const TempFolder folder;
  for (const auto& [begin, what, remedy] : cases) {
    const std::string path = folder.Write("a.txt", begin + rest);
    for (const std::string& named : {path, folder.path()}) {
      const absl::Status status = Contents(named).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("Expected plain text, but data file '" + path + "' "),
                        HasSubstr(what), HasSubstr(remedy)));
    }
  }
  EXPECT_THAT(std::string(Contents(folder.path()).status().message()),
              HasSubstr("every file right inside folder '" + folder.path() + "' is read"));
  const std::string parquet = folder.Write("b", "PAR1" + rest + "PAR1");
  EXPECT_THAT(std::string(Contents(parquet).status().message()), HasSubstr("is a Parquet table"));
  const std::string little = folder.Write("c", "h\0e\0l\0l\0o\0\n\0"s);
  EXPECT_THAT(std::string(Contents(little).status().message()), HasSubstr("iconv -f UTF-16LE"));
  const std::string big = folder.Write("d", "\0h\0e\0l\0l\0o\0\n"s);
  EXPECT_THAT(std::string(Contents(big).status().message()), HasSubstr("iconv -f UTF-16BE"));
  // Numbers of two bytes, such as tokens, are no text.
  const std::string tokens = folder.Write("e", "h\0e\0\1\0l\0o\0\n\0"s);
  EXPECT_THAT(std::string(Contents(tokens).status().message()), HasSubstr("seems to be binary"));
}

TEST(TextFilesTest, JsonIsKnownByItsFirstLines) {
  EXPECT_TRUE(IsJsonLines("{\"a\": 1}\n\n { \"b\": 2 } \r\n"));
  EXPECT_TRUE(IsJsonLines("\xef\xbb\xbf{\"a\": 1}"));
  EXPECT_TRUE(IsJsonLines("[{\"role\": \"user\"}]\n{\"a\": \"cut"));
  EXPECT_FALSE(IsJsonLines(""));
  EXPECT_FALSE(IsJsonLines("\n \n"));
  EXPECT_FALSE(IsJsonLines("{\"a\": 1}\ntext\n"));
  EXPECT_FALSE(IsJsonLines("{\"a\": 1, more\n"));
  EXPECT_FALSE(IsJsonLines("{braces}\n"));
  EXPECT_FALSE(IsJsonLines("[1, 2]\n"));
}

TEST(TextFilesTest, TextsOfEachEncodingOfBytesPass) {
  using std::literals::operator""s;
  const TempFolder folder;
  for (const std::string& text :
       {"gr\xfc\xdf Gott"s, "\xa4\xa2\xa4\xa4"s, "\x1b$B$\"\x1b(B"s, "\xff"s, "a\f\b\x7f"s,
        "\xef\xbb\xbfwith a mark"s, "PK is a pair of letters"s, "BZh begins here"s, "%PD"s,
        "PAR1 is a golf course"s, "BZh91AY&"s, "{braces}"s, std::string(8192, 'x') + '\0'}) {
    const auto read = Contents(folder.Write("a", text));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_THAT(*read, ElementsAre(text));
  }
}

TEST(TextFilesTest, AnErrorEndsIt) {
  const TempFolder folder;
  folder.Write("a", "first");
  folder.Write("b", "second");
  int taken = 0;
  EXPECT_EQ(ForEachTextFile(folder.path(),
                            [&](const std::string&, FileContent) {
                              ++taken;
                              return absl::CancelledError("enough");
                            }),
            absl::CancelledError("enough"));
  EXPECT_EQ(taken, 1);
}

TEST(TextFilesTest, SaysWhatIsMissing) {
  const TempFolder folder;
  EXPECT_EQ(Contents(folder.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Contents(folder.path()).status().message()),
              HasSubstr("no regular file with content"));
  const std::string empty = folder.Write("empty", "");
  EXPECT_THAT(std::string(Contents(empty).status().message()), HasSubstr(empty));
  std::filesystem::create_symlink("nowhere", folder.path() + "/link");
  EXPECT_EQ(Contents(folder.path()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
