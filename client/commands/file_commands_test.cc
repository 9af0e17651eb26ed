// The commands that read and write files.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/exit_code.h"
#include "client/commands/commands_fixture.h"
#include "client/terminal/format.h"
#include "common/compression/packed_for_testing.h"
#include "common/text/printable.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FileCommandsTest : public CommandsTest {};

TEST_F(FileCommandsTest, ExportRefusesFormatsThatItDoesNotWrite) {
  for (const std::string ending : {".onnx", ".pt", ".gguf"}) {
    const Shown shown = Run({"export", "j1", "--out", testing::TempDir() + "/weights" + ending});
    EXPECT_EQ(shown.exit_code, kUsage);
    EXPECT_THAT(shown.error, HasSubstr("but export writes no " + ending +
                                       " files: name a file "
                                       ".safetensors"));
    EXPECT_FALSE(std::filesystem::exists(testing::TempDir() + "/weights" + ending));
  }
  // Who names the format may name the file as they like.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"/dev/null/weights.safetensors"},
        {"/dev/null/WEIGHTS.SafeTensors"},
        {"/dev/null/weights"},
        {"/dev/null/weights.bin", "--format", "safetensors"}}) {
    std::vector<std::string> command = {"export", "j1", "--out"};
    command.insert(command.end(), words.begin(), words.end());
    const Shown shown = Run(command);
    EXPECT_NE(shown.exit_code, kSuccess);
    EXPECT_THAT(shown.error, Not(HasSubstr("export writes no"))) << words[0];
  }
}

// This holds for root, too, to whom the system would allow it: a device that a file was renamed
// over is gone for the whole machine.
TEST_F(FileCommandsTest, NoCommandReplacesWhatItDidNotMake) {
  const std::string folder = testing::TempDir() + "/replaces";
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const std::string text = testing::TempDir() + "/replaces.txt";
  std::ofstream(text) << "the text of the test, the text";
  const std::string job = testing::TempDir() + "/replaces.textproto";
  std::ofstream(job) << "name: \"none\"";
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  const bool device = mknod((folder + "/null").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  std::ofstream(folder + "/old") << "old";
  std::filesystem::create_symlink("old", folder + "/link");
  const std::vector<std::vector<std::string>> commands = {
      {"data", "tokenize", "--data", text, "--tokenizer", "bytes", "--out"},
      {"tokenizer", "train", "--data", text, "--vocabulary", "258", "--out"},
      {"compare", job, "--report"},
      {"bench", "store", "--json"}};
  for (const std::vector<std::string>& command : commands) {
    for (const char* name : {"pipe", "null", "old", "link"}) {
      if (name == std::string("null") && !device) continue;
      std::vector<std::string> words = command;
      words.push_back(absl::StrCat(folder, "/", name));
      const Shown shown = Run(words);
      EXPECT_EQ(shown.exit_code, kUsage) << command[0] << " " << name << ": " << shown.error;
      EXPECT_THAT(shown.error, HasSubstr(absl::StrCat(folder, "/", name, " is "))) << command[0];
    }
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder + "/pipe"));
  EXPECT_TRUE(!device || std::filesystem::is_character_file(folder + "/null"));
  std::string old;
  std::getline(std::ifstream(folder + "/old"), old);
  EXPECT_EQ(old, "old");
  const Shown forced = Run({"data", "tokenize", "--data", text, "--tokenizer", "bytes", "--force",
                            "--out", folder + "/link"});
  EXPECT_EQ(forced.exit_code, 0) << forced.error;
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link"));
  EXPECT_GT(std::filesystem::file_size(folder + "/old"), 100u);
}

TEST_F(FileCommandsTest, DataAreInspectedAndTokenized) {
  const std::string folder = testing::TempDir();
  const std::string pairs = folder + "/pairs.jsonl";
  std::ofstream(pairs) << "{\"prompt\": \"2+2=\", \"completion\": \"4\\u001b[2J\"}\n";
  const Shown shown = Run({"data", "inspect", pairs});
  EXPECT_EQ(shown.exit_code, kSuccess) << shown.error;
  EXPECT_EQ(shown.out, PrintableText(shown.out));
  EXPECT_THAT(shown.out, HasSubstr(pairs + ": JSON lines, "));
  EXPECT_THAT(shown.out, HasSubstr("\n--- " + pairs + ":1\n2+2=⟦4\\x1b[2J⟧\n"));
  EXPECT_THAT(shown.out, HasSubstr("--out pairs.tokens"));
  EXPECT_THAT(shown.out, HasSubstr(absl::StrCat("data {\n  sequences {\n    path: \"", pairs,
                                                "\"\n    tokenizer: \"TOKENIZER\"\n    packing: "
                                                "WHOLE_DOCUMENTS\n  }\n}\n")));
  const Shown job = Run({"init", "--data", pairs});
  EXPECT_EQ(job.exit_code, kSuccess) << job.error;
  EXPECT_THAT(job.out, HasSubstr("packing: WHOLE_DOCUMENTS"));
  EXPECT_THAT(Run({"data", "inspect", pairs, "--tokenizer", "bytes"}).out,
              HasSubstr("2|+|2|=⟦|4|"));
  const std::string text = folder + "/long.txt.gz";
  std::string words;
  while (words.size() < size_t{3} << 20) absl::StrAppend(&words, "word", words.size(), " ");
  std::ofstream(text, std::ios::binary) << Gzip(words);
  EXPECT_THAT(Run({"data", "inspect", text, "--tokenizer", "bytes"}).out,
              AllOf(HasSubstr(": compressed text, "), HasSubstr("1 document\n"),
                    HasSubstr(absl::StrCat(FormatCount(words.size()), " tokens"))));
  const std::string tokens = folder + "/pairs.tokens";
  const Shown made =
      Run({"data", "tokenize", "--data", pairs, "--tokenizer", "bytes", "--out", tokens});
  EXPECT_EQ(made.exit_code, kSuccess) << made.error;
  EXPECT_THAT(made.out, HasSubstr("9 tokens of 9 bytes"));
  EXPECT_THAT(made.out, HasSubstr("from 1 document; 5 of them are learned"));
  const Shown file = Run({"data", "inspect", tokens});
  EXPECT_EQ(file.exit_code, kSuccess) << file.error;
  EXPECT_THAT(file.out, HasSubstr("9 tokens, 55.6 % of them learned\n"
                                  "With packing WHOLE_DOCUMENTS padding is 99.2 % of sequences of "
                                  "1,024 tokens, 99.8 % of sequences of 4,096, "));
  EXPECT_THAT(file.out, HasSubstr("    path: \"" + tokens + "\"\n"));
  const Shown json = Run({"data", "inspect", tokens, "--output", "json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["learned_tokens"], "5");
  std::ofstream(pairs, std::ios::app) << "{\"prompt\": \"\", \"completion\": \"4\"}\n";
  const Shown refused = Run({"data", "inspect", pairs});
  EXPECT_EQ(refused.exit_code, kUsage);
  EXPECT_THAT(refused.error, HasSubstr(pairs + ":2: the prompt is empty"));
}

TEST_F(FileCommandsTest, AnImportReplacesNoFile) {
  const std::string folder = testing::TempDir() + "/imported";
  for (const char* name : {"job.textproto", "tokenizer.json"}) {
    ASSERT_TRUE(std::filesystem::create_directory(folder));
    std::ofstream(absl::StrCat(folder, "/", name)) << "mine";
    const Shown shown = Run({"import", "/no/such/model", "--out", folder});
    EXPECT_EQ(shown.exit_code, kUsage);
    EXPECT_THAT(shown.error, HasSubstr(absl::StrCat("/", name, " is there already")));
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace muster
