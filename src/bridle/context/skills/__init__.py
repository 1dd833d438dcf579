"""Skills: folders with a SKILL.md that the model learns of by name, reads when it needs one, and follows then.

Owns finding them (`skill_folders`), reading one (`skill_file`), what the model is told of them (`skill_list`), when one
is put into the conversation (`skill_layers`, `session_skills`). Knows nothing of trust:
whether a person agreed to a skill is asked through a callable. Start with `skill_records`.
"""
