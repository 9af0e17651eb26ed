// What a user does with language models: tokenizers and token files, training, evaluation, text
// from what was trained, and weights that come and go in Hugging Face's layout.

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files/bytes_of_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"
#include "tests/harness/safetensors_reader.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A folder of the test of this name, empty.
std::string FolderFor(const std::string& name) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::string Write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string Text() {
  std::string text;
  for (int i = 0; i < 600; ++i) {
    absl::StrAppend(&text, "The ", i % 7, " cats of house ", i * 7919 % 1000,
                    " sleep; the dog watches.\n");
  }
  return text;
}

nlohmann::json Json(const CommandResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
}

// What a command that failed left behind.
int PartialFilesIn(const std::string& folder) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".partial") ++files;
  }
  return files;
}

// Exports to what is there already: a file, a folder with a model, a pipe, a link to a file.
void ExportReplacesNothing(const std::string& job, const std::string& file,
                           const std::string& exported) {
  const std::string pipe = file + ".pipe.safetensors", link = file + ".link.safetensors";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(file, link);
  const auto written = std::filesystem::last_write_time(file);
  const std::string folder = " --format huggingface --out " + exported;
  for (const std::string& out :
       {" --out " + file, " --out " + link, " --out " + pipe, " --force --out " + pipe, folder}) {
    const CommandResult result = Muster(absl::StrCat("export ", job, out));
    EXPECT_EQ(result.exit_code, 2) << out << ": " << result.output;
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  EXPECT_EQ(Muster(absl::StrCat("export ", job, " --force --out ", link)).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_GT(std::filesystem::last_write_time(file), written);
  EXPECT_EQ(Muster(absl::StrCat("export ", job, " --force", folder)).exit_code, 0);
}

TEST(LanguageModelToolsTest, TokenizersAndTokenFiles) {
  const std::string folder = FolderFor("tools");
  const std::string text = Write(folder + "/text.txt", Text());
  const std::string tokenizer = folder + "/tokenizer.json";
  const std::string train = absl::StrCat("tokenizer train --data ", text, " --out ", tokenizer);
  EXPECT_EQ(Json(Muster(train + " --vocabulary 300 --output json"))["tokens"], "300");
  const std::string tokens = folder + "/text.tokens";
  const auto made = Json(Muster(absl::StrCat("data tokenize --data ", text, " --tokenizer ",
                                             tokenizer, " --out ", tokens, " --output json")));
  EXPECT_EQ(made["source_bytes"], absl::StrCat(Text().size()));
  EXPECT_EQ(made["vocabulary"], "300");
  CommandResult result = Muster(train + " --vocabulary 5000");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr(tokenizer + " is there already"), HasSubstr("--force")));
  EXPECT_THAT(Muster(train + " --vocabulary 5000 --force").output,
              HasSubstr("no pair occurs twice any more"));

  result = Muster(train + " --vocabulary 100");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("257"));
  EXPECT_EQ(Muster("tokenizer").exit_code, 2);
  EXPECT_EQ(Muster("data").exit_code, 2);
  result = Muster(
      absl::StrCat("tokenizer train --data /no/such --vocabulary 300 --out ", folder, "/t.json"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("/no/such"));
  result =
      Muster(absl::StrCat("tokenizer train --vocabulary 300 --out /no/such/t.json --data ", text));
  EXPECT_THAT(result.output, HasSubstr("cannot write /no/such/t.json"));
  const std::string out = " --out " + folder + "/other.tokens";
  result = Muster(absl::StrCat("data tokenize --data ", text, " --tokenizer ", text, out));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("text.txt is not JSON"));
  result = Muster(absl::StrCat("data tokenize --data ", tokens, " --tokenizer bytes", out));
  EXPECT_THAT(result.output, HasSubstr("is a token file already"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/other.tokens"));

  // Neither replaces the text, nor becomes part of it.
  for (const std::string& command : {std::string("tokenizer train --vocabulary 300"),
                                     std::string("data tokenize --tokenizer bytes")}) {
    result = Muster(absl::StrCat(command, " --data ", text, " --out ", text));
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.output, HasSubstr("is the text to read"));
    result = Muster(absl::StrCat(command, " --data ", folder, " --out ", folder, "/new"));
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.output, HasSubstr("every file there is read as text"));
  }
  result = Muster(absl::StrCat("data tokenize --tokenizer bytes --data ", folder, " --out ",
                               FolderFor("tools_out"), "/all.tokens"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr("has files of different forms"),
                                   HasSubstr("text.tokens is a token file")));
}

TEST(LanguageModelToolsTest, ChatsAreShownByTheTemplateOfAModel) {
  const std::string folder = FolderFor("chats");
  Write(folder + "/tokenizer_config.json",
        R"({"eos_token": "</s>", "chat_template": "{% for m in messages %}{{ m.role }}: )"
        R"({% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% endfor %}"})");
  const std::string data = Write(folder + "/chats.jsonl", R"([{"role": "user", "content": "Hi"}])"
                                                          "\n\n"
                                                          R"({"message": []})");
  const std::string chat = absl::StrCat("tokenizer chat --model ", folder, " --data ", data);
  CommandResult result = Muster(chat);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("chats.jsonl, line 1\nuser: Hi</s>\n"),
                    HasSubstr("a model learns 1 parts"), HasSubstr("chats.jsonl, line 3: ")));
  Write(data, R"([{"role": "user", "content": "Hi"}])");
  EXPECT_EQ(Json(Muster(chat + " --output json"))["learned"], "Hi</s>");
  Write(data, "no chat");
  EXPECT_THAT(Muster(chat).output, HasSubstr("chats.jsonl, line 1 is not JSON"));
}

TEST(LanguageModelToolsTest, HiddenFilesAreLeftOutAndWhatIsNoTextIsRefused) {
  const std::string folder = FolderFor("mixed");
  const std::string out = FolderFor("mixed_out");
  Write(folder + "/text.txt", Text());
  Write(folder + "/.DS_Store", std::string("\0\0\0\1Bud1", 8));
  const std::string told = absl::StrCat("folder '", folder, "': left out 1 hidden file: .DS_Store");
  const std::string tokenize =
      absl::StrCat("data tokenize --tokenizer bytes --data ", folder, " --out ", out);
  const std::string train =
      absl::StrCat("tokenizer train --vocabulary 300 --data ", folder, " --out ", out);
  const auto tokenized = Json(Muster(tokenize + "/a.tokens --output json"));
  EXPECT_EQ(tokenized["documents"], "1");
  EXPECT_EQ(tokenized["source_bytes"], absl::StrCat(Text().size()));
  EXPECT_EQ(tokenized["left_out"], told);
  EXPECT_THAT(Muster(tokenize + "/b.tokens").output, HasSubstr("document\n" + told + "\n"));
  EXPECT_THAT(Muster(train + "/a.json").output, HasSubstr("\n" + told + "\n"));
  EXPECT_EQ(Json(Muster(train + "/b.json --output json"))["left_out"], told);

  Write(folder + "/more.txt", "\x1f\x8b\b and the rest");
  for (const std::string& command : {tokenize + "/c.tokens", train + "/c.json"}) {
    const CommandResult result = Muster(command);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr("more.txt: the gzip stream is damaged at byte "));
  }
}

TEST(LanguageModelToolsTest, GenerateSaysWhatIsWrongWithAModel) {
  const std::string folder = FolderFor("wrong");
  const auto refused = [](const std::string& arguments) {
    const CommandResult result = Muster("generate " + arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    return result.output;
  };
  const std::string text = Write(folder + "/text.txt", Text());
  EXPECT_THAT(refused("./none --prompt a"), HasSubstr("there is no file or folder ./none"));
  EXPECT_THAT(refused(text + " --prompt a"), HasSubstr("is no safetensors file"));
  EXPECT_THAT(refused(folder + " --prompt a"), HasSubstr("has no config.json"));
  EXPECT_THAT(refused(text), HasSubstr("there is no --prompt"));
  EXPECT_THAT(refused(text + " --prompt a --top-p 2"), HasSubstr("top-p is 2"));
  EXPECT_THAT(refused(text + " --prompt a --temperature -1"), HasSubstr("temperature is -1"));
  const std::string model = "worker/generate/testdata/llama";
  EXPECT_THAT(refused(model + " --prompt a"), HasSubstr("--tokenizer"));
  EXPECT_THAT(refused(model + " --prompt a --tokenizer bytes"),
              HasSubstr("the tokenizer has 256 tokens, but the model only 31"));
  const CommandResult imported =
      Muster(absl::StrCat("import ", folder, " --out ", folder, "/imported"));
  EXPECT_EQ(imported.exit_code, 2);
  EXPECT_THAT(imported.output, HasSubstr("has no config.json"));
}

class LanguageModelTest : public testing::Test {
 protected:
  LanguageModelTest() : folder_(FolderFor("life")) {
    const CommandResult up =
        Muster("up --servers 1 --workers 2 --data-dir " + folder_ + "/cluster");
    EXPECT_EQ(up.exit_code, 0) << up.output;
    Write(folder_ + "/text.txt", Text());
  }
  ~LanguageModelTest() override { Muster("down --data-dir " + folder_ + "/cluster"); }

  v1::JobSpec Job() const {
    return ParseJobOrDie(absl::StrCat(R"(
        name: "language" workers: 2 batch_size: 8 seed: 3
        model { transformer { layers: 2 width: 32 heads: 2 context: 32 } }
        data { sequences { path: ")",
                                      folder_, R"(/text.tokens" } holdout: 0.1 }
        optimizer { name: "adamw" learning_rate: 0.01 }
        update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER durability: CHECKPOINT }
        stop { steps: 40 } checkpoint { every_steps: 20 })"));
  }

  // Submits and waits; the id.
  std::string Train(const v1::JobSpec& spec) const {
    const std::string job = Write(folder_ + "/job.textproto", spec.DebugString());
    const CommandResult result = Muster(absl::StrCat("submit ", job, " --watch"));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output.substr(0, result.output.find('\n'));
  }

  static double LossOf(const std::string& job) {
    const auto status = Json(Muster("status --output json " + job));
    return status["evaluations"].empty() ? -1 : status["evaluations"].back()["loss"].get<double>();
  }

  static std::string Generate(const std::string& model, int seed) {
    const CommandResult result = Muster(
        absl::StrCat("generate ", model, " --prompt 'The 3 cats' --max-tokens 40 --seed ", seed));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, StartsWith("The 3 cats"));
    return result.output;
  }

  static ExportedTensors Tensors(const std::string& path) {
    auto tensors = ReadSafetensors(BytesOfFile(path));
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    return *std::move(tensors);
  }

  const std::string folder_;
};

TEST_F(LanguageModelTest, FromTextToTextAndThroughHuggingFacesFiles) {
  const std::string tokenizer = folder_ + "/tokenizer.json";
  ASSERT_EQ(Muster(absl::StrCat("tokenizer train --vocabulary 300 --data ", folder_,
                                "/text.txt --out ", tokenizer))
                .exit_code,
            0);
  ASSERT_EQ(Muster(absl::StrCat("data tokenize --tokenizer ", tokenizer, " --data ", folder_,
                                "/text.txt --out ", folder_, "/text.tokens"))
                .exit_code,
            0);
  const std::string job = Train(Job());
  const double loss = LossOf(job);
  // Equally likely tokens would have ln 300 = 5.7.
  EXPECT_GT(loss, 0);
  EXPECT_LT(loss, 4);
  const std::string evaluated = Muster("evaluate " + job).output;
  EXPECT_THAT(evaluated, StartsWith("bits_per_byte "));
  EXPECT_THAT(evaluated, HasSubstr(absl::StrFormat(", loss %.4f, perplexity ", loss)));
  // Without a prompt it begins with the end of a text, whatever flag follows.
  const CommandResult unprompted =
      Muster(absl::StrCat("generate ", job, " --prompt '' --max-tokens 5"));
  EXPECT_EQ(unprompted.exit_code, 0) << unprompted.output;
  EXPECT_THAT(unprompted.output, Not(HasSubstr("--max-tokens")));
  // The job knows tokens only; text in their place is encoded alike.
  CommandResult result = Muster(absl::StrCat("evaluate ", job, " --data ", folder_, "/text.txt"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(Muster("evaluate --metric perplexity " + job).output,
              AllOf(StartsWith("perplexity "),
                    HasSubstr(absl::StrFormat(", loss %.4f, bits_per_byte ", loss))));
  const auto json = nlohmann::json::parse(Muster("--output json evaluate " + job).output, nullptr,
                                          /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["metric"], "bits_per_byte");
  EXPECT_EQ(json["bits_per_byte"], json["value"]);
  EXPECT_NEAR(json["loss"].get<double>(), loss, 1e-4);
  EXPECT_DOUBLE_EQ(json["perplexity"].get<double>(), std::exp(json["loss"].get<double>()));

  const std::string text = Generate(job, 1);
  EXPECT_EQ(Generate(job, 1), text);
  EXPECT_NE(Generate(job, 2), text);

  const auto object = Json(Muster(absl::StrCat(
      "generate ", job, " --prompt 'The 3 cats' --max-tokens 40 --seed 1 --output json")));
  EXPECT_EQ(object["prompt"], "The 3 cats");
  EXPECT_EQ("The 3 cats" + object["text"].get<std::string>() + "\n", text);
  EXPECT_EQ(object["tokens"], 40);
  EXPECT_EQ(object["seed"], 1);
  EXPECT_EQ(Generate(job + "@40", 1), text);
  EXPECT_NE(Generate(job + "@20", 1), text);
  EXPECT_EQ(Muster(absl::StrCat("generate ", job, "@7 --prompt a")).exit_code, 2);

  const std::string file = folder_ + "/model.safetensors";
  ASSERT_EQ(Muster(absl::StrCat("export ", job, " --out ", file)).exit_code, 0);
  EXPECT_EQ(Generate(file, 1), text);
  const std::string exported = folder_ + "/exported";
  result = Muster(absl::StrCat("export ", job, " --format huggingface --out ", exported));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Generate(exported, 1), text);
  EXPECT_TRUE(std::filesystem::exists(exported + "/tokenizer_config.json"));
  EXPECT_EQ(PartialFilesIn(folder_), 0);
  ExportReplacesNothing(job, file, exported);

  // GPT-2 keeps [in, out] what is [out, in] here.
  const ExportedTensors ours = Tensors(file);
  const ExportedTensors theirs = Tensors(exported + "/model.safetensors");
  const ExportedTensor& qkv = ours.at("block1.qkv.weight");
  const ExportedTensor& c_attn = theirs.at("transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(qkv.shape, (std::vector<int64_t>{96, 32}));
  EXPECT_EQ(c_attn.shape, (std::vector<int64_t>{32, 96}));
  const std::vector<float> a = qkv.Floats();
  const std::vector<float> b = c_attn.Floats();
  for (int i = 0; i < 96 * 32; ++i) ASSERT_EQ(b[i % 32 * 96 + i / 32], a[i]);
  EXPECT_EQ(theirs.at("transformer.wte.weight").bytes, ours.at("embedding.weight").bytes);
  EXPECT_EQ(theirs.size(), ours.size());

  const std::string imported = folder_ + "/imported";
  result = Muster(absl::StrCat("import ", exported, " --out ", imported));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  v1::JobSpec again = Job();
  again.mutable_stop()->set_evaluate_only(true);
  again.mutable_stop()->clear_steps();
  again.set_initial_weights(imported);
  EXPECT_NEAR(LossOf(Train(again)), loss, 1e-6);
  again.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  again.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  EXPECT_NEAR(LossOf(Train(again)), loss, 1e-5);
  // The job that the import wrote lacks nothing but the text's path.
  const std::string spec = absl::StrReplaceAll(
      BytesOfFile(imported + "/job.textproto"),
      {{"TEXT_FILE_OR_FOLDER", folder_ + "/text.txt"}, {"epochs: 1", "steps: 2"}});
  result = Muster(absl::StrCat("submit --watch ", Write(imported + "/job.textproto", spec)));
  EXPECT_EQ(result.exit_code, 0) << result.output;

  std::filesystem::rename(folder_ + "/text.tokens", folder_ + "/moved.tokens");
  result = Muster(absl::StrCat("generate ", job, " --prompt a"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr("/life/text.tokens is not on this machine"),
                                   HasSubstr("--tokenizer"), Not(HasSubstr("/proc/"))));
  EXPECT_EQ(
      Muster(absl::StrCat("generate ", job, " --max-tokens 5 --prompt a --tokenizer ", tokenizer))
          .exit_code,
      0);
}

// As many tokens, but others: nothing in the weights tells them apart.
TEST_F(LanguageModelTest, AnotherTokenizerOfTheSameSizeIsRefused) {
  const auto make = [this](const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(folder_, "/", name);
    EXPECT_EQ(Muster(absl::StrCat("tokenizer train --vocabulary 280 --data ",
                                  Write(path + ".txt", text), " --out ", path, ".json"))
                  .exit_code,
              0);
    EXPECT_EQ(Muster(absl::StrCat("data tokenize --tokenizer ", path, ".json --data ", folder_,
                                  "/text.txt --out ", path, ".tokens"))
                  .exit_code,
              0);
    return path;
  };
  const std::string own = make("own", Text());
  const std::string other = make("other", absl::StrReplaceAll(Text(), {{"e", "q"}, {"s", "z"}}));
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(2);
  spec.mutable_data()->mutable_sequences()->set_path(own + ".tokens");
  const std::string job = Train(spec);
  const auto refused = [&](const std::string& arguments) {
    const CommandResult result = Muster(arguments);
    EXPECT_NE(result.exit_code, 0) << arguments << ": " << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("/own."), HasSubstr("/other."))) << arguments;
    return result.output;
  };
  const std::string with_other = absl::StrCat(" --tokenizer ", other, ".json");
  refused(absl::StrCat("evaluate ", job, " --data ", other, ".tokens"));
  refused(absl::StrCat("generate ", job, " --prompt The", with_other));
  const std::string file = folder_ + "/weights.safetensors";
  refused(absl::StrCat("export ", job, " --out ", file, with_other));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(PartialFilesIn(folder_), 0);
  // Its own, wherever it lies.
  CommandResult result =
      Muster(absl::StrCat("export ", job, " --out ", file, " --tokenizer ", own, ".json"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  refused(absl::StrCat("generate ", file, " --prompt The", with_other));
  result = Muster(
      absl::StrCat("generate ", file, " --prompt The --max-tokens 3 --tokenizer ", own, ".tokens"));
  EXPECT_EQ(result.exit_code, 0) << result.output;

  // Where the client does not see both, the tasks do, on either road.
  for (const v1::UpdateSpec::Road road :
       {v1::UpdateSpec::PARAMETER_SERVER, v1::UpdateSpec::ALL_REDUCE}) {
    v1::JobSpec next = spec;
    next.set_initial_weights(job);
    next.mutable_update()->set_dense(road);
    next.mutable_update()->set_sparse(road);
    next.mutable_data()->mutable_sequences()->set_path(other + ".tokens");
    const std::string path = Write(folder_ + "/next.textproto", next.DebugString());
    EXPECT_THAT(refused(absl::StrCat("submit --watch ", path)), HasSubstr("has another tokenizer"));
    result = Muster(absl::StrCat("submit --watch ", path, " --data ", folder_, "/text.txt"));
    EXPECT_NE(result.exit_code, 0) << "encoded by the same one: " << result.output;
  }

  // A file that was replaced since is not taken for what it was.
  std::filesystem::copy_file(other + ".tokens", own + ".tokens",
                             std::filesystem::copy_options::overwrite_existing);
  result = Muster(absl::StrCat("export ", job, " --force --out ", file));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("without a tokenizer"));
  result = Muster(absl::StrCat("generate ", file, " --prompt The"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr(" learned from tokens of "), HasSubstr("/own.tokens, but")));
}

// Rows of the vocabulary that are of no token: in checkpoints and in Muster's own files, not in
// Hugging Face's.
TEST_F(LanguageModelTest, PaddingGoesOutAndComesBack) {
  v1::JobSpec spec = Job();
  spec.mutable_data()->mutable_sequences()->set_path(folder_ + "/text.txt");
  spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
  spec.mutable_model()->mutable_transformer()->set_vocabulary(260);
  spec.mutable_model()->mutable_transformer()->set_pad_vocabulary_to(64);
  const std::string job = Train(spec);
  const double loss = LossOf(job);
  EXPECT_GT(loss, 0);
  EXPECT_LT(loss, 4);
  EXPECT_THAT(Muster("logs " + job).output, HasSubstr(" steps were left out; the loss scale is "));
  const std::string text = Generate(job, 1);
  const std::string file = folder_ + "/model.safetensors";
  ASSERT_EQ(Muster(absl::StrCat("export ", job, " --out ", file)).exit_code, 0);
  EXPECT_EQ(Tensors(file).at("embedding.weight").shape, (std::vector<int64_t>{320, 32}));
  EXPECT_EQ(Generate(file, 1), text);
  const std::string exported = folder_ + "/exported";
  CommandResult result =
      Muster(absl::StrCat("export ", job, " --format huggingface --out ", exported));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Tensors(exported + "/model.safetensors").at("transformer.wte.weight").shape,
            (std::vector<int64_t>{260, 32}));
  EXPECT_EQ(Generate(exported, 1), text);

  const std::string plain = folder_ + "/plain", padded = folder_ + "/padded";
  const std::string import = absl::StrCat("import ", exported, " --out ");
  ASSERT_EQ(Muster(import + plain).exit_code, 0);
  ASSERT_EQ(Muster(absl::StrCat(import, padded, " --pad-vocabulary-to 64")).exit_code, 0);
  spec.mutable_stop()->set_evaluate_only(true);
  spec.mutable_stop()->clear_steps();
  spec.set_initial_weights(padded);
  EXPECT_NEAR(LossOf(Train(spec)), loss, 1e-6);
  // Between different paddings nothing is guessed.
  spec.set_initial_weights(plain);
  result = Muster(
      absl::StrCat("submit --watch ", Write(folder_ + "/refused.textproto", spec.DebugString())));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("embedding.weight"));
  spec.mutable_model()->mutable_transformer()->clear_pad_vocabulary_to();
  EXPECT_NEAR(LossOf(Train(spec)), loss, 1e-4);
}

TEST_F(LanguageModelTest, RefusalsNameTheJobsModel) {
  const std::string job = Train(SmallJob());
  CommandResult result = Muster(absl::StrCat("generate ", job, " --prompt a"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output,
              HasSubstr("trains a model mlp; `muster generate` takes a transformer"));
  result = Muster(absl::StrCat("export ", job, " --format huggingface --out ", folder_, "/x"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("trains a model mlp"));
  EXPECT_EQ(Muster("generate no-such-job --prompt a").exit_code, 2);
  result = Muster(absl::StrCat("submit ", folder_, "/job.textproto --from ./none"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("holds no complete checkpoint"));

  // A shape of neither family trains and generates, but has no such layout.
  v1::JobSpec spec = Job();
  spec.mutable_data()->mutable_sequences()->set_path(folder_ + "/text.txt");
  spec.mutable_model()->mutable_transformer()->set_positions(v1::TransformerSpec::ROTARY);
  spec.mutable_stop()->set_steps(2);
  const std::string other = Train(spec);
  result = Muster(absl::StrCat("export ", other, " --format huggingface --out ", folder_, "/x"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("positions ROTARY (it has LEARNED)"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/x"));
  Generate(other, 1);
}

}  // namespace
}  // namespace muster
