// The commands that documentation, help, errors and the page offer are commands that `muster`
// takes.

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cluster/session.h"
#include "client/command_line.h"
#include "common/files/bytes_of_file.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Commands of the script ./muster alone.
const char* const kOfTheScript[] = {"test", "fuzz", "package", "install", "image"};

// A command that is offered somewhere, without the program's name.
struct Offered {
  std::string where;
  std::string text;
};

// Returns the words of a command as a shell splits them, up to a comment or to what follows the
// command.
std::vector<std::string> Words(absl::string_view text) {
  std::vector<std::string> words;
  bool within = false;
  char quote = '\0';
  for (const char c : text) {
    if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        words.back().push_back(c);
      }
      continue;
    }
    if (absl::ascii_isspace(c)) {
      within = false;
      continue;
    }
    if (!within && absl::StrContains("#|>&;", c)) break;
    if (!within) words.emplace_back();
    within = true;
    if (c == '\'' || c == '"') {
      quote = c;
    } else {
      words.back().push_back(c);
    }
  }
  return words;
}

// Adds what stands between backquotes. In a program, text that ends in a blank goes on with a
// value. What scripts of the page offer is left out where values are unknown.
void AddSpans(const std::string& where, absl::string_view text, std::vector<Offered>& offered) {
  constexpr absl::string_view kStart = "`muster ";
  for (size_t at = text.find(kStart); at != absl::string_view::npos; at = text.find(kStart, at)) {
    at += kStart.size();
    const size_t end = std::min(text.size(), text.find_first_of(absl::string_view("`\0", 2), at));
    const absl::string_view span = text.substr(at, end - at);
    if (!absl::StrContains(span, "${")) {
      offered.push_back({where, absl::StrCat(span, absl::EndsWith(span, " ") ? "VALUE" : "")});
    }
    at = end;
  }
}

// Adds lines that are commands as a whole, as in examples.
void AddLines(const std::string& where, absl::string_view text, std::vector<Offered>& offered) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripLeadingAsciiWhitespace(line);
    absl::ConsumePrefix(&line, "Example: ");
    absl::ConsumePrefix(&line, "./");
    // A drawing names the program, too.
    const bool command = absl::ConsumePrefix(&line, "muster ") && !line.empty();
    if (command && absl::ascii_islower(line[0])) offered.push_back({where, std::string(line)});
  }
}

// Returns what `muster` says of the words; OK if they only name a command.
absl::Status Check(std::vector<std::string> words) {
  if (words.empty() || std::count(std::begin(kOfTheScript), std::end(kOfTheScript), words[0]) > 0) {
    return absl::OkStatus();
  }
  absl::Status status = CheckCommandLine(words);
  if (absl::IsInvalidArgument(status)) {
    // A letter such as N stands for a number.
    for (std::string& word : words) {
      if (word.size() == 1 && absl::ascii_isupper(word[0])) word = "7";
    }
    if (CheckCommandLine(words).ok()) return absl::OkStatus();
  }
  return absl::IsFailedPrecondition(status) ? absl::OkStatus() : status;
}

// Returns how many of the commands there are, and fails for each that `muster` does not take.
size_t CheckAll(const std::vector<Offered>& offered) {
  for (const Offered& command : offered) {
    const absl::Status status = Check(Words(command.text));
    EXPECT_TRUE(status.ok()) << command.where << " offers: muster " << command.text << "\n"
                             << status.message();
  }
  return offered.size();
}

TEST(OfferedCommandsTest, OfDocumentation) {
  std::vector<Offered> offered;
  std::vector<std::string> pages = {"README.md", "CHANGELOG.md"};
  for (const auto& page : std::filesystem::recursive_directory_iterator("docs")) {
    if (page.path().extension() == ".md") pages.push_back(page.path().string());
  }
  for (const std::string& page : pages) {
    const std::string text = BytesOfFile(page);
    AddSpans(page, text, offered);
    // The blocks of tutorials are scripts, with variables, and run (tutorial_test.py).
    if (absl::StrContains(page, "tutorial_")) continue;
    bool fenced = false;
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (absl::StartsWith(line, "```")) fenced = !fenced;
      if (fenced || absl::StartsWith(line, "    ")) AddLines(page, line, offered);
    }
  }
  EXPECT_GT(CheckAll(offered), 100u);
}

TEST(OfferedCommandsTest, OfHelp) {
  std::vector<Offered> offered;
  for (const std::vector<std::string>& command : AllCommands()) {
    std::vector<std::string> words = {"help"};
    words.insert(words.end(), command.begin(), command.end());
    Session session;
    testing::internal::CaptureStdout();
    RunCommandLine(words, session);
    // Joins the lines of a broken example; others begin with a program.
    static const std::regex* const broken = new std::regex("\n {9}(?!muster |tensorboard )");
    AddLines(absl::StrCat("muster ", absl::StrJoin(words, " ")),
             std::regex_replace(testing::internal::GetCapturedStdout(), *broken, " "), offered);
  }
  EXPECT_GT(CheckAll(offered), AllCommands().size());
}

// Their texts are in the programs, each up to where a value stands in it.
TEST(OfferedCommandsTest, OfErrors) {
  std::vector<Offered> offered;
  for (const char* program :
       {"client/muster", "server/coordinator/muster-coordinator", "worker/runtime/muster-worker"}) {
    AddSpans(program, BytesOfFile(program), offered);
  }
  EXPECT_GT(CheckAll(offered), 20u);
}

TEST(OfferedCommandsTest, OfThePage) {
  std::vector<Offered> offered;
  const std::regex value("\\$\\{[^}]*\\}");
  for (const auto& file : std::filesystem::directory_iterator("common/page/files")) {
    if (file.path().extension() != ".js") continue;
    AddSpans(file.path().string(), std::regex_replace(BytesOfFile(file.path()), value, "7"),
             offered);
  }
  EXPECT_GT(CheckAll(offered), 2u);
}

TEST(OfferedCommandsTest, WrongOnesAreFound) {
  EXPECT_TRUE(Check(Words("list --state RUNNING --limit N   # all")).ok());
  EXPECT_TRUE(Check(Words("checkpoint restore")).ok()) << "it is only named";
  EXPECT_FALSE(Check(Words("lsit")).ok());
  EXPECT_FALSE(Check(Words("list --frobnicate")).ok());
  EXPECT_FALSE(Check(Words("checkpoint restore JOB@4 --steps many")).ok());
  EXPECT_EQ(Words("generate JOB --prompt \"a b\" | less"),
            (std::vector<std::string>{"generate", "JOB", "--prompt", "a b"}));
}

}  // namespace
}  // namespace muster
