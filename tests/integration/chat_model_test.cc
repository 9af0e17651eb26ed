// From a file of chats to a model that answers, and out and in through Hugging Face's layout.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/muster_command.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using JsonValue = nlohmann::json;

constexpr char kTemplate[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Runs a command that must succeed; its output.
std::string Succeed(const std::string& command) {
  const CommandResult result = Muster(command);
  EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.output;
  return result.output;
}

class ChatModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Succeed(absl::StrCat("up --servers 0 --workers 1 --data-dir ", folder(), "/cluster"));
    WriteTokenizer();
    std::ofstream chats(folder() + "/chats.jsonl");
    for (int i = 0; i < 400; ++i) {
      const bool red = i % 2 == 0;
      chats << JsonValue({{"messages",
                           {{{"role", "user"}, {"content", red ? "What is red?" : "Who are you?"}},
                            {{"role", "assistant"}, {"content", red ? "A color." : "A model."}}}}})
                   .dump()
            << "\n";
    }
  }

  void TearDown() override { Succeed(absl::StrCat("down --data-dir ", folder(), "/cluster")); }

  // Learns a tokenizer, and adds the tokens of turns, as published models have them.
  void WriteTokenizer() {
    const std::string tokenizer = folder() + "/model/tokenizer.json";
    std::filesystem::create_directories(folder() + "/model");
    temp_.Write("text.txt", "What is red? A color.\nWho are you? A model.\nuser\nassistant\n");
    Succeed(absl::StrCat("tokenizer train --data ", folder(), "/text.txt --vocabulary 262 --out ",
                         tokenizer));
    JsonValue json = JsonValue::parse(BytesOfFile(tokenizer));
    int id = json["added_tokens"].back()["id"].get<int>();
    for (const char* text : {"<|im_start|>", "<|im_end|>"}) {
      json["added_tokens"].push_back({{"id", ++id}, {"content", text}, {"special", true}});
    }
    temp_.Write("model/tokenizer.json", json.dump());
    temp_.Write("model/tokenizer_config.json",
                JsonValue({{"eos_token", "<|im_end|>"}, {"chat_template", kTemplate}}).dump());
  }

  std::string folder() const { return temp_.path(); }

  const TempFolder temp_;
};

TEST_F(ChatModelTest, AnswersAsItLearned) {
  temp_.Write("job.textproto",
              absl::StrCat(R"(
    name: "chats"
    model { transformer { layers: 2 width: 64 heads: 4 kv_heads: 2 context: 32 norm: RMS_NORM
                          positions: ROTARY activation: SWIGLU no_biases: true } }
    data { sequences { path: ")",
                           folder(), R"(/chats.jsonl" tokenizer: ")", folder(), R"(/model" } }
    optimizer { name: "adamw" learning_rate: 0.003 }
    update { dense: ALL_REDUCE sparse: ALL_REDUCE }
    batch_size: 8 stop { steps: 120 } seed: 1)"));
  const std::string submitted =
      Succeed(absl::StrCat("submit ", folder(), "/job.textproto --watch"));
  const std::string job = submitted.substr(0, submitted.find('\n'));
  const std::string ask = " --chat --temperature 0 --prompt ";
  EXPECT_EQ(Succeed(absl::StrCat("generate ", job, ask, "'What is red?'")), "A color.\n");

  const std::string out = folder() + "/out";
  EXPECT_THAT(
      Succeed(absl::StrCat("export ", job, " --format huggingface --type bf16 --file-size 60KB ",
                           "--out ", out)),
      AllOf(HasSubstr("weights in bf16"), HasSubstr("with the chat template"),
            HasSubstr("read again, it gives the job's logits and tokens")));
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors.index.json"));
  EXPECT_EQ(JsonValue::parse(BytesOfFile(out + "/tokenizer_config.json"))["eos_token"],
            "<|im_end|>");
  EXPECT_EQ(Succeed(absl::StrCat("generate ", out, ask, "'Who are you?'")), "A model.\n");

  const std::string imported = folder() + "/imported";
  Succeed(absl::StrCat("import ", out, " --out ", imported));
  for (const char* name : {"/tokenizer_config.json", "/generation_config.json"}) {
    EXPECT_EQ(BytesOfFile(imported + name), BytesOfFile(out + name)) << name;
  }
  CommandResult result =
      Muster(absl::StrCat("generate ", job, " --chat --chat-template ", folder(), " --prompt a"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("has no chat template"));
  result = Muster(absl::StrCat("generate ", job));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("--chat to talk with the model"));
}

}  // namespace
}  // namespace muster
