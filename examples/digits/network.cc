#include "network.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dataset.hpp"

namespace digits {
namespace {

// outputs = inputs * weights^T + biases
void multiply(Layer &layer, const float *inputs, float *outputs, std::size_t count) {
  for (std::size_t image = 0; image < count; ++image) {
    const float *input = inputs + image * layer.inputs;
    for (std::size_t row = 0; row < layer.outputs; ++row) {
      const float *weights = layer.parameters.data() + row * layer.inputs;
      float sum = layer.biases()[row];
      for (std::size_t at = 0; at < layer.inputs; ++at)
        sum += weights[at] * input[at];
      outputs[image * layer.outputs + row] = sum;
    }
  }
}

void softmax(float *values, std::size_t width) {
  const float largest = *std::max_element(values, values + width);
  float sum = 0;
  for (std::size_t at = 0; at < width; ++at)
    sum += values[at] = std::exp(values[at] - largest);
  for (std::size_t at = 0; at < width; ++at)
    values[at] /= sum;
}

// Adds up the gradients of a layer, given the errors at its outputs.
void accumulate(Layer &layer, const float *inputs, const float *errors, std::size_t count) {
  std::fill(layer.gradients.begin(), layer.gradients.end(), 0.0F);
  for (std::size_t image = 0; image < count; ++image) {
    const float *input = inputs + image * layer.inputs;
    for (std::size_t row = 0; row < layer.outputs; ++row) {
      const float error = errors[image * layer.outputs + row];
      float *gradients = layer.gradients.data() + row * layer.inputs;
      for (std::size_t at = 0; at < layer.inputs; ++at)
        gradients[at] += error * input[at];
      layer.bias_gradients()[row] += error;
    }
  }
}

// The errors at a layer's inputs, which are the outputs of a ReLU.
std::vector<float> errors_below(const Layer &layer, const std::vector<float> &inputs,
                                const std::vector<float> &errors, std::size_t count) {
  std::vector<float> below(count * layer.inputs, 0.0F);
  for (std::size_t image = 0; image < count; ++image) {
    float *sums = below.data() + image * layer.inputs;
    for (std::size_t row = 0; row < layer.outputs; ++row) {
      const float error = errors[image * layer.outputs + row];
      const float *weights = layer.parameters.data() + row * layer.inputs;
      for (std::size_t at = 0; at < layer.inputs; ++at)
        sums[at] += error * weights[at];
    }
  }
  for (std::size_t at = 0; at < below.size(); ++at) {
    if (inputs[at] <= 0) below[at] = 0;
  }
  return below;
}

} // namespace

Layer::Layer(std::size_t inputs, std::size_t outputs)
    : inputs(inputs), outputs(outputs), parameters((inputs + 1) * outputs, 0.0F),
      gradients(parameters.size(), 0.0F), velocities(parameters.size(), 0.0F) {}

// Not std::normal_distribution: each standard library has its own.
void Layer::randomise(std::mt19937 &random) {
  const float limit = std::sqrt(6.0F / static_cast<float>(inputs));
  for (std::size_t at = 0; at < inputs * outputs; ++at) {
    const float from_0_to_1 = static_cast<float>(random() >> 8) / 16777216.0F;
    parameters[at] = limit * (2 * from_0_to_1 - 1);
  }
}

Network::Network(const std::vector<std::size_t> &widths, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::size_t at = 0; at + 1 < widths.size(); ++at) {
    layers_.emplace_back(widths[at], widths[at + 1]);
    layers_.back().randomise(random);
  }
  outputs_.resize(layers_.size());
}

void Network::propagate(std::size_t at, const float *inputs, std::size_t count) {
  Layer &layer = layers_[at];
  std::vector<float> &outputs = outputs_[at];
  outputs.resize(count * layer.outputs);
  multiply(layer, inputs, outputs.data(), count);
  if (at + 1 < layers_.size()) {
    for (float &value : outputs)
      value = std::max(value, 0.0F);
    return;
  }
  for (std::size_t image = 0; image < count; ++image)
    softmax(outputs.data() + image * layer.outputs, layer.outputs);
}

const std::vector<float> &Network::forward(const float *images, std::size_t count) {
  const float *inputs = images;
  for (std::size_t at = 0; at < layers_.size(); ++at) {
    propagate(at, inputs, count);
    inputs = outputs_[at].data();
  }
  return outputs_.back();
}

void Network::backward(const float *images, const int *labels, std::size_t count,
                       const std::function<void(std::size_t)> &ready) {
  std::vector<float> errors = outputs_.back();
  for (std::size_t image = 0; image < count; ++image)
    errors[image * classes + static_cast<std::size_t>(labels[image])] -= 1;
  for (float &error : errors)
    error /= static_cast<float>(count);
  for (std::size_t at = layers_.size(); at-- > 0;) {
    accumulate(layers_[at], at == 0 ? images : outputs_[at - 1].data(), errors.data(), count);
    ready(at);
    if (at > 0) errors = errors_below(layers_[at], outputs_[at - 1], errors, count);
  }
}

void Network::update(float rate, float momentum) {
  for (Layer &layer : layers_) {
    for (std::size_t at = 0; at < layer.parameters.size(); ++at) {
      layer.velocities[at] = momentum * layer.velocities[at] - rate * layer.gradients[at];
      layer.parameters[at] += layer.velocities[at];
    }
  }
}

std::uint64_t Network::hash() const {
  std::uint64_t hash = 14695981039346656037U;
  for (const Layer &layer : layers_) {
    for (const float value : layer.parameters) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      for (int shift = 0; shift < 32; shift += 8)
        hash = (hash ^ ((bits >> shift) & 0xFFU)) * 1099511628211U;
    }
  }
  return hash;
}

float loss_of(const std::vector<float> &probabilities, const int *labels, std::size_t count) {
  float sum = 0;
  for (std::size_t image = 0; image < count; ++image) {
    const float right = probabilities[image * classes + static_cast<std::size_t>(labels[image])];
    sum -= std::log(std::max(right, 1e-12F));
  }
  return sum / static_cast<float>(count);
}

std::uint64_t correct_among(const std::vector<float> &probabilities, const int *labels,
                            std::size_t count) {
  std::uint64_t correct = 0;
  for (std::size_t image = 0; image < count; ++image) {
    const auto first = probabilities.begin() + static_cast<std::ptrdiff_t>(image * classes);
    const auto best = std::max_element(first, first + classes);
    if (best - first == labels[image]) ++correct;
  }
  return correct;
}

} // namespace digits
