// One run of a Mastra agent whose models answer at once, with observational memory or with a plain list:
// node agent.mjs TURNS DATABASE memory|list
// It prints what the run took, as JSON.

import { readFileSync } from 'node:fs';
import { Agent } from '@mastra/core/agent';
import { LibSQLStore } from '@mastra/libsql';
import { Memory } from '@mastra/memory';

const [turnsFile, database, how] = process.argv.slice(2);
const { turns, keep } = JSON.parse(readFileSync(turnsFile, 'utf8'));
const calls = { agent: 0, observer: 0, reflector: 0 };
let reply = '';

// A language model as the AI SDK specifies it, that answers both ways of asking without any wait.
function instant(role, answer) {
  const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
  const say = () => {
    calls[role] += 1;
    return answer();
  };
  return {
    specificationVersion: 'v2',
    provider: 'instant',
    modelId: role,
    supportedUrls: {},
    async doGenerate() {
      return { content: [{ type: 'text', text: say() }], finishReason: 'stop', usage, warnings: [] };
    },
    async doStream() {
      const parts = [
        { type: 'stream-start', warnings: [] },
        { type: 'text-start', id: '0' },
        { type: 'text-delta', id: '0', delta: say() },
        { type: 'text-end', id: '0' },
        { type: 'finish', finishReason: 'stop', usage },
      ];
      return { stream: ReadableStream.from(parts) };
    },
  };
}

// A tenth of what the observer reads, in its own format: Mastra's usual compression is 5 to 40.
function observations() {
  const lines = Array.from({ length: 25 }, (_, i) =>
    `* 🟡 (10:${10 + i}) Ana moved order 88-${calls.observer}-${i} to the harbour station before noon`);
  return `<observations>\nDate: Feb 16, 2026\n${lines.join('\n')}\n</observations>`;
}

function withMemory() {
  return new Memory({
    storage: new LibSQLStore({ id: 'bench', url: `file:${database}` }),
    options: {
      observationalMemory: {
        observation: { model: instant('observer', observations) },
        reflection: { model: instant('reflector', observations) },
      },
    },
  });
}

const memory = how === 'memory' ? withMemory() : undefined;
const agent = new Agent({
  id: 'bench',
  name: 'bench',
  instructions: 'You are a helpful assistant.',
  model: instant('agent', () => reply),
  ...(memory && { memory }),
});

const history = [];
const began = process.cpuUsage();
for (const [user, assistant] of turns) {
  reply = assistant;
  if (memory) {
    await agent.generate(user, { memory: { thread: 'bench', resource: 'ana' } });
    await memory.settled();
  } else {
    history.push({ role: 'user', content: user });
    await agent.generate(history.slice(-keep));
    history.push({ role: 'assistant', content: assistant });
  }
}
const cpu = process.cpuUsage(began);
console.log(JSON.stringify({
  cpu: (cpu.user + cpu.system) / 1000,
  peak: process.resourceUsage().maxRSS / 1024,
  observed: calls.observer,
  reflected: calls.reflector,
}));
