#include "dataset.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace digits {
namespace {

constexpr float brightest = 16.0F;

[[noreturn]] void refuse(const std::string &path, std::size_t line) {
  throw std::runtime_error(path + ":" + std::to_string(line) + ": not 64 pixels and a digit");
}

std::vector<int> numbers_in(const std::string &line) {
  std::vector<int> numbers;
  std::istringstream fields(line);
  std::string field;
  while (std::getline(fields, field, ',')) {
    std::istringstream text(field);
    int number = -1;
    text >> number;
    numbers.push_back(number);
  }
  return numbers;
}

} // namespace

void Dataset::add(const float *image, int label) {
  pixels.insert(pixels.end(), image, image + pixels_per_image);
  labels.push_back(label);
}

Dataset read_csv(const std::string &path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  Dataset all;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const std::vector<int> fields = numbers_in(line);
    if (fields.size() != pixels_per_image + 1) refuse(path, number);
    const int label = fields.back();
    if (label < 0 || label >= static_cast<int>(classes)) refuse(path, number);
    for (std::size_t at = 0; at < pixels_per_image; ++at) {
      if (fields[at] < 0 || fields[at] > static_cast<int>(brightest)) refuse(path, number);
      all.pixels.push_back(static_cast<float>(fields[at]) / brightest);
    }
    all.labels.push_back(label);
  }
  return all;
}

Split hold_out_a_fifth(const Dataset &all) {
  Split split;
  for (std::size_t at = 0; at < all.size(); ++at) {
    Dataset &part = at % 5 == 4 ? split.held_out : split.training;
    part.add(all.image(at), all.labels[at]);
  }
  return split;
}

Dataset shard(const Dataset &all, std::size_t rank, std::size_t size) {
  Dataset part;
  for (std::size_t at = rank; at < all.size(); at += size)
    part.add(all.image(at), all.labels[at]);
  return part;
}

} // namespace digits
